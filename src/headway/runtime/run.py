"""A run: a workload under a policy on a live platform, from its directory to its result."""

import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import fsum
from pathlib import Path
from typing import Any

from headway import __version__
from headway.backend.base import Backend
from headway.backend.clock import Clock
from headway.backend.docker.discovery import check_images
from headway.backend.live import LiveBackend
from headway.backend.local.enforcement.cgroupfs import sweep
from headway.backend.monitor import Totals
from headway.controller.records import JobRecord
from headway.core.model.decision import Decision, Outcome, Place, Refused
from headway.core.model.job import Phase
from headway.core.model.snapshot import Observation
from headway.core.model.units import NodeId, Seconds
from headway.errors import ConfigError
from headway.policy.registry import build
from headway.runtime import journal
from headway.runtime.driver import drive
from headway.runtime.journal import FileJournal
from headway.runtime.loop import Loop
from headway.runtime.result import JobResult, Result, summarise, to_json
from headway.runtime.run_directory import RunDirectory
from headway.runtime.targets import Docker, Engines, Machine, OnCluster, Target, find_target
from headway.runtime.usage_sampler import UsageSampler
from headway.spec.arrivals import expand, to_yaml
from headway.spec.capacity_check import refuse_too_large
from headway.spec.load import read_workload
from headway.spec.platform_features import ALL_FEATURES, LIVE_FEATURES
from headway.spec.runnable import RunnableJob, to_jobs
from headway.spec.workload import NodeSpec, Workload


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
        with self._signals():
            drive(self.backend, self.loop, meter)
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

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Ctrl-C cancels the jobs; a second one kills them. A closed terminal ends only Headway:
        the jobs continue, and `--resume` finds them.
        """
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        numbers = (signal.SIGINT, signal.SIGTERM)
        old = [signal.signal(n, lambda number, frame: None) for n in numbers]

        def heard() -> None:
            os.read(reader, 512)
            self.backend.cancel("interrupted", force=self.interrupted)
            self.interrupted = True

        self.backend.wake_by(reader, heard)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            for number, handler in zip(numbers, old, strict=True):
                signal.signal(number, handler)
            self.backend.stop_waking(reader)
            os.close(reader)
            os.close(writer)


def begin(
    workload: Workload,
    path: Path,
    policy: str,
    *,
    data: Path,
    observe_only: bool = False,
    nodes: int | None = None,
    on: Docker | OnCluster | None = None,
) -> Run:
    """Start a run of the workload in `path`. `nodes`: partition the machine into this many.
    `on`: None for this machine.
    """
    build(policy)  # an unknown policy leaves nothing behind
    if nodes is not None:
        equal = NodeSpec(cpu=len(os.sched_getaffinity(0)) / nodes, count=nodes)
        workload = workload.model_copy(update={"nodes": (equal,)})
    listed = expand(workload)
    jobs = _jobs(listed, path, on, peaks(data))
    about = {"workload": str(path.resolve()), "observe_only": observe_only}
    target = find_target(on, workload)
    if isinstance(target, Engines):
        check_images(target.engines, jobs)
    if target.nodes is not None:
        refuse_too_large({job.id: job.spec for job in jobs}, target.nodes, str(path))
    run = _begin(jobs, policy, data, about, target)
    run.folder.write("workload.yaml", to_yaml(listed))
    return run


def _jobs(
    workload: Workload, path: Path, on: Docker | OnCluster | None, peaks: Mapping[str, float]
) -> list[RunnableJob]:
    supported = ALL_FEATURES if isinstance(on, OnCluster) else LIVE_FEATURES
    return to_jobs(workload, path, peaks=peaks, image=on.image if on else "", supported=supported)


def adopt(
    jobs: list[RunnableJob],
    policy: str,
    *,
    data: Path,
    observe_only: bool = False,
    engines: Engines | None = None,
) -> Run:
    """Manage processes or containers that are already running."""
    about = {"adopted": [job.adopted for job in jobs], "observe_only": observe_only}
    # Moving a process into a cgroup would change it.
    how = "nice" if observe_only else ""
    return _begin(jobs, policy, data, about, engines or Machine.of(None, how))


def resume(data: Path, name: str) -> Run:
    """Continue a run whose Headway process died; its jobs may have continued meanwhile."""
    folder = RunDirectory.find(data, name)
    folder.check_format()
    about = folder.about
    if "workload" not in about:
        raise ConfigError("a run of adopted jobs cannot be resumed", hint="adopt it again")
    folder.lock()
    if folder.ended:
        folder.unlock()
        raise ConfigError(
            f"run {folder.id} has ended",
            where=str(folder.path),
            hint=f"see headway report {folder.id}",
        )
    path = Path(about["workload"])
    workload = read_workload(folder.path / "workload.yaml")
    on: Docker | OnCluster | None = None
    if "docker" in about:
        on = Docker(tuple(about["docker"]["engines"]), about["docker"]["image"])
    elif "kubernetes" in about:
        on = OnCluster(**about["kubernetes"])
    jobs = _jobs(workload, path, on, {})
    return _put_together(folder, jobs, about, find_target(on, workload, about["enforcement"]))


def _begin(
    jobs: list[RunnableJob], policy: str, data: Path, about: dict[str, Any], target: Target
) -> Run:
    clock = Clock()
    about = {"headway": __version__, "policy": policy, "began": clock.began, **about}
    about |= target.about
    folder = RunDirectory.new(data, about)
    folder.lock()
    sweep(lambda run: _over(data / "runs" / run))
    try:
        return _put_together(folder, jobs, about, target)
    except BaseException:
        folder.discard()
        raise


def _over(run: Path) -> bool:
    """Whether a run has ended. A run of another data folder is unknown, so it is not swept."""
    return run.exists() and not RunDirectory(run).locked


def _put_together(
    folder: RunDirectory, jobs: list[RunnableJob], about: dict[str, Any], target: Target
) -> Run:
    backend = target.backend(folder, {job.id: job for job in jobs}, Clock(about["began"]))
    cycle, lines = 0, []
    if folder.journal.exists():
        journal.mend(folder.journal)
        lines = list(journal.read(folder.journal))
        cycle = lines[-1]["cycle"] if lines else 0
    else:
        how = backend.platform.enforcement[0]
        folder.write("run.json", json.dumps({**folder.about, "enforcement": how}, indent=2))
    policy = f"@{about['policy']}"
    book = FileJournal(folder.journal, cycle=cycle, policy=policy)
    seen: Backend = ObserveOnly(backend) if about["observe_only"] else backend
    loop = Loop(seen, build(policy), book)
    loop.take_up(lines)
    total = sum(n.capacity.cpu for n in backend.controller.nodes.values())
    observed = about["observe_only"]
    return Run(folder, backend, loop, book, about["policy"], total, target.factor, observed)


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
