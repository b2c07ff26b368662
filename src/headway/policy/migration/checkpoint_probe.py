"""Every job is saved, stopped and started again once, on purpose: what does that cost?"""

from headway.core.model.decision import CALM, Plan, Suspend
from headway.core.model.serialization import memory, record
from headway.core.model.snapshot import Snapshot
from headway.core.model.units import JobId, Seconds


@memory
class Interruptions:
    done: dict[JobId, None]
    """Who has had its interruption."""


@record
class Interrupted:
    """It only suspends: whoever places jobs starts them again at once."""

    name: str = "interrupted"
    listens: bool = True
    at: float = 0.5
    """After this part of its declared steps; 1 or more: never."""
    interval: Seconds = 1.0
    """It looks this often how far they are."""

    def begin(self) -> Interruptions:
        return Interruptions(done={})

    def decide(self, snapshot: Snapshot, memory: Interruptions) -> tuple[Plan, Interruptions]:
        running = snapshot.running
        memory.done = {j: None for j in memory.done if j in snapshot.jobs}
        if not running:
            return CALM, memory
        due = dict.fromkeys(r.job for r in running if self._due(r.job, snapshot))
        fresh = [j for j in due if j not in memory.done]
        memory.done.update(dict.fromkeys(fresh))
        why = f"{self.at:.0%} of its steps are done: saved, and on from there"
        stops = tuple(Suspend(job=j, reason=why) for j in fresh)
        nodes = dict.fromkeys(r.node for r in running if r.node)
        return Plan(decisions=stops, wake_after=self.interval, look=tuple(nodes)), memory

    def _due(self, job: JobId, s: Snapshot) -> bool:
        total = s.jobs[job].spec.total_steps
        step = max((r.track.step or 0.0 for r in s.of(job)), default=0.0)
        return total is not None and self.at <= step / total < 1
