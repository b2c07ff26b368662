"""Save, stop and restart each job once, to measure what that costs."""

from headway.core.model.decision import CALM, Plan, Suspend
from headway.core.model.serialization import memory, record
from headway.core.model.snapshot import Snapshot
from headway.core.model.units import JobId, Seconds


@memory
class CheckpointProbeMemory:
    done: dict[JobId, None]
    """Jobs that have been suspended."""


@record
class CheckpointProbe:
    """Only suspends jobs; a placement policy after it starts them again at once."""

    about = "saves and restarts each job once, for `headway calibrate`"
    name: str = "interrupted"
    listens: bool = True
    at: float = 0.5
    """Fraction of the declared steps after which a job is suspended; 1 or more: never."""
    interval: Seconds = 1.0
    """Time between checks of the progress."""

    def begin(self) -> CheckpointProbeMemory:
        return CheckpointProbeMemory(done={})

    def decide(
        self, snapshot: Snapshot, memory: CheckpointProbeMemory
    ) -> tuple[Plan, CheckpointProbeMemory]:
        running = snapshot.running
        memory.done = {j: None for j in memory.done if j in snapshot.jobs}
        if not running:
            return CALM, memory
        due = dict.fromkeys(r.job for r in running if self._due(r.job, snapshot))
        new = [j for j in due if j not in memory.done]
        memory.done.update(dict.fromkeys(new))
        why = f"{self.at:.0%} of its steps are done: save and restart"
        suspends = tuple(Suspend(job=j, reason=why) for j in new)
        nodes = dict.fromkeys(r.node for r in running if r.node)
        return Plan(decisions=suspends, wake_after=self.interval, look=tuple(nodes)), memory

    def _due(self, job: JobId, s: Snapshot) -> bool:
        total = s.jobs[job].spec.total_steps
        step = max((r.history.step or 0.0 for r in s.of(job)), default=0.0)
        return total is not None and self.at <= step / total < 1 and s.can(job).suspend
