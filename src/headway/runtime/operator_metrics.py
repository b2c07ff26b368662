"""Probes and metrics of an operator over HTTP.

/healthz   the loop runs; 503: it has been stuck for a minute
/readyz    the process leads or stands by
/metrics   counters in the text format of Prometheus
"""

from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate
from math import inf
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING, Any

from headway.backend.live import LiveBackend
from headway.core.model.decision import Applied, Decision, Outcome, Started
from headway.core.model.snapshot import Observation, Trigger
from headway.core.model.units import NodeId, Seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from headway.controller.records import JobRecord

TEXT = "text/plain; version=0.0.4; charset=utf-8"
"""Media type of the text format of Prometheus."""
BUCKETS: tuple[Seconds, ...] = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
STUCK: Seconds = 60.0
"""A loop that has not waited for events for this long is stuck."""


class Metrics:
    """Written by the thread of the loop, read by the threads of the server."""

    def __init__(self) -> None:
        self.ready = self.leads = False
        self.beat = monotonic()
        self.decisions: Counter[tuple[str, str]] = Counter()
        self.cycles, self.seconds = 0, 0.0
        self.durations: Counter[float] = Counter()
        """Number of cycles by their smallest bucket."""
        self.jobs: Counter[str] = Counter()
        self.reports: Counter[str] = Counter()
        """Reports of jobs by source."""
        self.resizes: Counter[str] = Counter()
        """Resizes of pods by outcome."""
        self.api: Callable[[], dict[tuple[str, str], int]] = dict
        """Calls to the API server by verb and result."""

    @property
    def healthy(self) -> bool:
        return not self.leads or monotonic() - self.beat < STUCK

    def text(self) -> str:
        lines = [
            *family("headway_leader", "gauge", "Whether this process leads.", {(): self.leads}),
            *family("headway_jobs", "gauge", "Jobs by phase.", by_label(self.jobs, "phase")),
            *family(
                "headway_decisions_total",
                "counter",
                "Decisions by kind and outcome.",
                {(("kind", k), ("outcome", o)): n for (k, o), n in self.decisions.items()},
            ),
            *family(
                "headway_reports_total",
                "counter",
                "Reports of jobs by source.",
                by_label(self.reports, "source"),
            ),
            *family(
                "headway_resizes_total",
                "counter",
                "Resizes of running pods by outcome.",
                by_label(self.resizes, "outcome"),
            ),
            *family("headway_cycles_total", "counter", "Decision cycles.", {(): self.cycles}),
            *family(
                "headway_cycle_seconds_total", "counter", "Time in cycles.", {(): self.seconds}
            ),
            *self._histogram(),
            *family(
                "headway_api_requests_total",
                "counter",
                "Calls to the API server by verb and result.",
                {(("verb", v), ("result", r)): n for (v, r), n in self.api().items()},
            ),
        ]
        return "\n".join(lines) + "\n"

    def took(self, seconds: Seconds) -> None:
        """Count a cycle."""
        self.cycles, self.seconds = self.cycles + 1, self.seconds + seconds
        self.durations[next((b for b in BUCKETS if seconds <= b), inf)] += 1

    def _histogram(self) -> list[str]:
        name = "headway_cycle_duration_seconds"
        counts = accumulate(self.durations[bound] for bound in (*BUCKETS, inf))
        bounds = [*(f"{b:g}" for b in BUCKETS), "+Inf"]
        lines = [f"# HELP {name} Decision cycles by duration.", f"# TYPE {name} histogram"]
        lines += [f'{name}_bucket{{le="{b}"}} {n}' for b, n in zip(bounds, counts, strict=True)]
        return [*lines, f"{name}_sum {self.seconds:g}", f"{name}_count {self.cycles}"]


Labels = tuple[tuple[str, str], ...]


def by_label(counts: Counter[str], label: str) -> dict[Labels, float]:
    return {((label, name),): count for name, count in sorted(counts.items())}


def family(name: str, kind: str, about: str, values: dict[Labels, float]) -> list[str]:
    found = [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]
    for labels, value in values.items():
        inside = ",".join(f'{key}="{text}"' for key, text in labels)
        found.append(
            f"{name}{{{inside}}} {float(value):g}" if inside else f"{name} {float(value):g}"
        )
    return found


class Measured:
    """A live backend that counts cycles and decisions. It calls `on_decision` with each decision
    that is carried out.
    """

    def __init__(
        self,
        backend: LiveBackend,
        metrics: Metrics,
        on_decision: "Callable[[Decision], None]" = lambda decision: None,
    ) -> None:
        self._backend, self._metrics, self._began = backend, metrics, 0.0
        self._on_decision = on_decision

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def wait(self, timeout: Seconds) -> Trigger | None:
        metrics, now = self._metrics, monotonic()
        if self._began:
            metrics.took(now - self._began)
            self._began = 0.0
            jobs: list[JobRecord] = list(self._backend.controller.jobs.values())
            metrics.jobs = Counter(job.phase.value for job in jobs)
        metrics.beat, metrics.ready = now, True
        return self._backend.wait(timeout)

    def observe(self, look: tuple[NodeId, ...] = ()) -> Observation:
        self._began = monotonic()
        return self._backend.observe(look)

    def act(self, decision: Decision) -> Outcome:
        outcome = self._backend.act(decision)
        kind = type(decision).__name__, type(outcome).__name__
        self._metrics.decisions[kind] += 1
        if isinstance(outcome, Started | Applied):
            self._on_decision(decision)
        return outcome


def serve(metrics: Metrics, port: int) -> ThreadingHTTPServer:
    """Start a server that answers in its own threads until it is shut down."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            fine = {"/healthz": metrics.healthy, "/readyz": metrics.ready, "/metrics": True}
            if self.path not in fine:
                self._say(404, "not found\n")
            elif self.path == "/metrics":
                self._say(200, metrics.text())
            else:
                ok = fine[self.path]
                self._say(200 if ok else 503, "ok\n" if ok else "not ok\n")

        def _say(self, status: int, text: str) -> None:
            data = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", TEXT)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: object) -> None:
            """Do not log probes."""

    server = ThreadingHTTPServer(("", port), Handler)
    server.daemon_threads = True
    Thread(target=server.serve_forever, name="probes", daemon=True).start()
    return server
