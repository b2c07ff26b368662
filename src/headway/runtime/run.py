"""A run: a workload under a policy on a live platform, up to its result."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from math import fsum
from pathlib import Path
from typing import Any

from headway.backend.base import Backend
from headway.backend.live import LiveBackend
from headway.backend.monitor import Totals
from headway.controller.records import JobRecord
from headway.core.model.decision import Decision, Outcome, Place, Refused
from headway.core.model.job import Phase
from headway.core.model.snapshot import Observation
from headway.core.model.units import NodeId, Seconds
from headway.runtime.driver import drive, signal_pipe
from headway.runtime.journal import FileJournal
from headway.runtime.loop import Loop
from headway.runtime.result import JobResult, Result, summarise, to_json
from headway.runtime.run_directory import RunDirectory
from headway.runtime.usage_sampler import UsageSampler


class ObserveOnly:
    """Start jobs; decide and record everything else without acting."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    def observe(self, look: tuple[NodeId, ...] = ()) -> Observation:
        return self.backend.observe(look)

    def act(self, decision: Decision) -> Outcome:
        if isinstance(decision, Place):
            return self.backend.act(decision)
        return Refused(decision=decision, why="observe-only mode")


@dataclass(slots=True)
class Run:
    folder: RunDirectory
    backend: LiveBackend
    loop: Loop[Any]
    book: FileJournal
    policy: str
    cores: float
    factor: float
    observed: bool = False
    """Observe-only."""
    interrupted: bool = False

    def go(self, then: Callable[[UsageSampler, Seconds], None] = lambda meter, now: None) -> Result:
        """Run to the end; `then` is called after each sample."""
        meter = UsageSampler(self.backend, self.folder.usage, then)
        with signal_pipe() as reader:
            self.backend.wake_by(reader, lambda: self._interrupt(reader))
            try:
                drive(self.backend, self.loop, meter)
            finally:
                self.backend.stop_waking(reader)
        result = self._result()
        learn_peaks(self.folder, self.backend)
        self.backend.close()
        self.book.close()
        # Comes last: a run with a result is not resumed.
        self.folder.write("result.json", json.dumps([self.plain(result)], indent=2))
        self.folder.unlock()
        return result

    def plain(self, result: Result) -> dict[str, Any]:
        return {
            **to_json([result]),
            "run": self.folder.id,
            "enforcement": self.backend.platform.enforcement[0],
            "cpu_factor": self.factor,
            "reasons": {j.id: j.reason for j in self.backend.controller.jobs.values() if j.reason},
        }

    def _result(self) -> Result:
        totals = self.backend.monitor.totals
        return summarise(
            tuple(_job(j, totals.get(j.id)) for j in self.backend.controller.jobs.values()),
            policy=self.policy,
            backend=self.backend.platform.kind,
            seed=0,
            used=fsum(t.used for t in totals.values()),
            capacity=self.cores,
        )

    def _interrupt(self, reader: int) -> None:
        """Cancel the jobs; a second Ctrl-C kills them. A closed terminal ends only Headway: the
        jobs continue, and `--resume` finds them.
        """
        os.read(reader, 512)
        self.backend.cancel("interrupted", force=self.interrupted)
        self.interrupted = True


def _job(job: JobRecord, totals: Totals | None) -> JobResult:
    at = job.new.submitted_at
    return JobResult(
        name=job.id,
        submitted_s=at,
        started_s=job.started_at,
        finished_s=max(at, job.finished_at or at),
        steps=totals.step if totals else 0.0,
        moves=job.moves,
        outcome=job.outcome,
    )


def peaks(data: Path) -> dict[str, float]:
    """Peak memory by kind of job, from earlier runs."""
    try:
        found: dict[str, float] = json.loads((data / "peaks.json").read_text())
    except (OSError, ValueError):
        return {}
    return found


def learn_peaks(folder: RunDirectory, backend: LiveBackend) -> None:
    data = folder.path.parent.parent
    known = peaks(data)
    for job in backend.controller.jobs.values():
        totals, kind = backend.monitor.totals.get(job.id), job.spec.kind
        if totals and job.phase is Phase.SUCCEEDED and kind and totals.peak:
            known[kind] = max(totals.peak, known.get(kind, 0.0))
    part = data / f"peaks.json.{os.getpid()}"
    part.write_text(json.dumps(known))
    part.replace(data / "peaks.json")
