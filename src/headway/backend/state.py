"""What a backend keeps of each job and replica. Changed in place, by it alone."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from headway import failpoint
from headway.backend.usage import UsageSample
from headway.core.estimate.step_rate import SERVER
from headway.core.model.job import Job, Phase, Replica
from headway.core.model.report import Report, Usage
from headway.core.model.units import Bytes, Cores, CoreSeconds, JobId, NodeId, ReplicaId, Seconds
from headway.metrics.reader import MetricsReader
from headway.spec.runnable import LiveJob

if TYPE_CHECKING:
    from headway.backend.transit import Transit


class Work:
    """One job."""

    def __init__(self, job: LiveJob, folder: Path) -> None:
        self.job, self.folder = job, folder
        self.spec = job.spec
        self.phase, self.reason = Phase.PENDING, ""
        self.then = Phase.PENDING
        """What it will be when all of it has left."""
        self.tries = 0
        self.again_at: Seconds | None = None
        """When it goes back into the queue after it failed."""
        self.started_at: Seconds | None = None
        self.finished_at: Seconds | None = None
        self.members: dict[ReplicaId, Member] = {}
        self.gang: tuple[ReplicaId, ...] = ()
        """Who was started last, by rank."""
        self.used: CoreSeconds = 0.0
        """By those of its replicas that have ended."""
        self.peak: Bytes = 0.0
        self.step = 0.0
        self.moves = 0
        self._held = (folder / "held").exists()

    @property
    def id(self) -> JobId:
        return self.job.id

    @property
    def held(self) -> bool:
        """Somebody paused it: it is not to be placed."""
        return self._held

    @property
    def fate(self) -> str:
        """How it ended, as people say it: what was adopted is never cancelled, only let go."""
        let_go = self.job.adopted is not None and self.phase is Phase.CANCELLED
        return "let go" if let_go else self.phase.value

    @property
    def queued(self) -> Phase:
        """What it is in when nothing of it runs and nothing is waited for."""
        return Phase.LEAVING if self._held else Phase.PENDING

    def hold(self, held: bool) -> None:
        """For good: whoever comes after us must know it too."""
        self._held = held
        self.folder.mkdir(parents=True, exist_ok=True)
        failpoint.hit()
        if held:
            (self.folder / "held").touch()
        else:
            (self.folder / "held").unlink(missing_ok=True)

    def to_core(self) -> Job:
        return Job(
            id=self.id,
            spec=self.spec,
            submitted_at=self.job.at,
            phase=self.phase,
            reason=self.reason,
        )

    def chief(self) -> ReplicaId:
        """Its success is the job's."""
        names = [t.name for t in self.spec.tasks]
        lead = next((n for n in ("chief", "main", "worker") if n in names), names[0])
        return ReplicaId.of(self.id, lead, 0)

    def by_rank(self, gang: Iterable[ReplicaId]) -> tuple[ReplicaId, ...]:
        """Parameter servers first, whom the others ask for, then the chief, then as the job itself
        lists them: at every start the same, whoever has placed them and in whatever order.
        """
        spec, chief = self.spec, self.chief()

        def place(name: ReplicaId) -> tuple[bool, bool, int, int]:
            task = spec.task(name.task)
            index = name.index
            return task.name != SERVER, name != chief, spec.tasks.index(task), index

        return tuple(sorted(gang, key=place))


class Member(ABC):
    """One replica, whatever it runs as."""

    def __init__(self, name: ReplicaId, work: Work, node: NodeId) -> None:
        self.id, self.work, self.node = name, work, node
        self.task = name.task
        self.folder = work.folder / name.name
        self.phase = Phase.RUNNING
        self.epoch = 0
        self.limit: Cores | None = None
        self.weight = 1.0
        self.rank = (0, 1)
        """Its place in its gang, and the gang's size."""
        self.transit: Transit | None = None
        self.came_from: NodeId | None = None
        """Where its room is kept until it has reported here."""
        self.voice = MetricsReader(self.folder, work.job.metric, work.job.pattern, work.job.log)
        self.last = UsageSample()
        self.since: Seconds = 0.0
        """When it came, or was found again."""
        self.heard_at: Seconds = 0.0
        self.heard = self.before = UsageSample()
        """At the last report, and when it came."""
        self.why = ""
        """What the platform says of its end."""
        self.kill_at: Seconds | None = None
        """When patience ends with what was asked to leave."""

    def to_core(self) -> Replica:
        return Replica(
            id=self.id,
            job=self.work.id,
            task=self.task,
            node=self.came_from or self.node,
            phase=self.phase,
            bound_for=self._bound_for(),
            limit=self.limit,
            weight=self.weight,
        )

    def _bound_for(self) -> NodeId | None:
        if self.came_from is not None:
            return self.node
        there = self.transit.to if self.transit else None
        return None if there == self.node else there

    @abstractmethod
    def read(self, before: UsageSample | None) -> UsageSample:
        """What it has used. `before`: take memory and block I/O from there; only CPU is read."""

    def measure(self, *, cpu_only: bool = False) -> UsageSample:
        with suppress(OSError):  # its group may be gone already: what was seen last is all
            self.last = self.read(self.last if cpu_only else None)
        self.work.peak = max(self.work.peak, self.last.memory)
        return self.last

    def report(self, now: Seconds) -> Report | None:
        """What is heard of it since the last time: one mean, and what it used."""
        if now <= self.heard_at:
            return None
        self.voice.listen()
        before, since = self.heard, self.heard_at
        after = self.measure()
        self.heard, self.heard_at = after, now
        said, elapsed = self.voice.report(), now - since
        periods = after.periods - before.periods
        return Report(
            replica=self.id,
            since=since,
            at=now,
            step=self.voice.step,
            value=said.mean if said.count else None,
            high=said.high,
            usage=Usage(
                cpu=max(0.0, after.cpu - before.cpu) / elapsed,
                memory=float(after.memory),
                block_io=max(0, after.block_io - before.block_io) / elapsed,
                throttled=(after.throttled - before.throttled) / periods if periods > 0 else 0.0,
            ),
            trouble=said.trouble,
        )

    def fall_silent(self) -> None:
        """It has ended: take in the last that it said and used."""
        self.voice.listen()
        self.work.used += self.measure().cpu
        if self.voice.step is not None:
            self.work.step = max(self.work.step, self.voice.step)
        self.voice.close()
