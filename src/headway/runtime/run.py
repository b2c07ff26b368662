"""A run: a workload under a policy on a live platform, until its result."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from math import fsum, inf
from typing import Any

from headway.backend.base import Backend
from headway.backend.clock import Clock
from headway.backend.live import LiveBackend
from headway.backend.monitor import Totals
from headway.controller.records import JobRecord
from headway.core.model.decision import Decision, Outcome, Place, Refused
from headway.core.model.job import Phase
from headway.core.model.snapshot import Observation
from headway.core.model.units import JobId, NodeId, Seconds
from headway.runtime.demand import DemandMeter, IdleMeter
from headway.runtime.driver import drive, signal_pipe
from headway.runtime.earlier_runs import EarlierRuns, Seen
from headway.runtime.foreign_use import foreign_line, mean_until, node_changes
from headway.runtime.journal import FileJournal
from headway.runtime.journal import read as read_journal
from headway.runtime.loop import Loop
from headway.runtime.result import JobResult, Result, summarise, to_json
from headway.runtime.run_directory import RunDirectory
from headway.runtime.status_board import KnownFacts, StatusBoard
from headway.runtime.usage_sampler import UsageSampler


class Detached(Exception):
    """The user has detached from a run. Its jobs continue."""


class ObserveOnly:
    """A backend that starts jobs and refuses all other decisions, which the journal
    still records.
    """

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
    journal: FileJournal
    policy: str
    cores: float
    factor: float
    observed: bool = False
    """Whether the run is observe-only."""
    interrupted: bool = False
    detached: bool = False
    """Whether the user has detached. The jobs continue."""
    ask: Callable[[], None] | None = None
    """Asks the user what the first Ctrl-C means, and calls `answer`. None: stop the jobs."""
    kinds: dict[JobId, tuple[str, str]] = field(default_factory=dict)
    """Key and command of each job at the start of the run."""
    clock: Clock = field(default_factory=Clock)
    demand: DemandMeter = field(default_factory=DemandMeter)
    idle: IdleMeter = field(default_factory=IdleMeter)
    known: KnownFacts = field(default_factory=KnownFacts)

    def go(
        self, then: Callable[[UsageSampler, Seconds], None] = lambda sampler, now: None
    ) -> Result:
        """Run to the end. `then` is called after each sample. Raise `Detached` if the user has
        detached.
        """

        def sampled(sampler: UsageSampler, now: Seconds) -> None:
            self.measure(sampler, now)
            then(sampler, now)

        sampler = UsageSampler(self.backend, self.folder.usage, sampled)
        board = StatusBoard(self)
        self.backend.on_stop = lambda jobs: self.answer("stop" if jobs else "detach")
        with signal_pipe() as reader:
            self.backend.wake_by(reader, lambda: self._interrupt(reader))
            try:
                drive(self.backend, self.loop, sampler, lambda: board.update(sampler))
            finally:
                self.backend.stop_waking(reader)
        sampler.finish(self.clock())
        board.update(sampler, last=True)
        if self.detached:
            self.backend.platform.close()
            self.journal.close()
            self.folder.unlock()
            raise Detached
        result = self._result()
        for job in self.backend.controller.jobs.values():
            self.learn(job, self.backend.monitor.totals.get(job.id), self.kinds.get(job.id))
        self.backend.close()
        self.journal.close()
        # This is the last step: a run with a result is not resumed.
        self.folder.write("result.json", json.dumps([self.plain(result)], indent=2))
        self.folder.unlock()
        return result

    def plain(self, result: Result) -> dict[str, Any]:
        return {
            **to_json([result]),
            "run": self.folder.id,
            "enforcement": self.backend.platform.enforcement[0],
            "cores": self.cores,
            "cpu_factor": self.factor,
            "reasons": {j.id: j.reason for j in self.backend.controller.jobs.values() if j.reason},
        }

    def _result(self) -> Result:
        totals = self.backend.monitor.totals
        jobs = tuple(_job(j, totals.get(j.id)) for j in self.backend.controller.jobs.values())
        line = foreign_line(node_changes(read_journal(self.folder.journal)))
        return summarise(
            jobs,
            policy=self.policy,
            backend=self.backend.platform.kind,
            seed=0,
            used=fsum(t.used for t in totals.values()),
            capacity=self.cores,
            foreign=mean_until(line, max(j.finished_s for j in jobs)),
        )

    def measure(self, sampler: UsageSampler, now: Seconds) -> None:
        """Use a sample: measure the demand of each job, and check whether the clock was set."""
        self.clock.check()
        there = [w for w in self.backend.monitor.replicas.values() if w.id in sampler.latest]
        record = self.backend.controller.records.replica
        limited = {w.id for w in there if (r := record(w.id)) and r.in_effect[0] is not None}
        used = {w.id: (w.node, sampler.latest[w.id].cpu) for w in there}
        spare = self.idle.cores(now) if self.backend.platform.kind == "local" else inf
        self.demand.add(now, self.backend.controller.nodes, used, limited, spare)

    def learn(self, job: JobRecord, totals: Totals | None, kind: tuple[str, str] | None) -> None:
        """Store measurements of a job that has succeeded, for later runs. `kind`: key
        and command.
        """
        if kind is None or totals is None or job.phase is not Phase.SUCCEEDED:
            return
        # The CPU time is the size only without restarts and on nodes of one speed.
        speeds = {node.speed for node in self.backend.controller.nodes.values()}
        whole = job.attempt == 1 and len(speeds) == 1
        shown = Seen(
            work=totals.used * max(speeds) if whole else 0.0,
            steps=totals.step,
            demand=self.demand.demand.get(job.id, 0.0),
            memory=totals.peak,
        )
        EarlierRuns(self.folder.data).learn([(*kind, shown)])

    def _interrupt(self, reader: int) -> None:
        """Handle Ctrl-C and SIGTERM. The first Ctrl-C asks the user if possible, otherwise it
        cancels the jobs. The next one cancels them, and a further one kills them. SIGHUP (a closed
        terminal) ends only Headway: the jobs continue, and `--resume` finds them.
        """
        os.read(reader, 512)
        if self.ask is not None:
            ask, self.ask = self.ask, None
            ask()
        else:
            self.answer("stop")

    def answer(self, word: str) -> None:
        """Carry out the answer of the user: `detach`, or `stop` the jobs."""
        if word == "detach":
            self.detached = True
            self.backend.stop()
        else:
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
