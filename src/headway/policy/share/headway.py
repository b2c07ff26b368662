"""`headway`: everybody gains, nobody loses (docs/explanation/nobody-loses.md).

Beside the real node the policy keeps a reference one, in which every job gets its plain fair
share. A job's finish there is a promise. Within the promises, CPU goes to what can be finished
soonest: the least remaining work first, except for those who must go ahead now or some promise
could no longer be kept.
"""

from math import inf

from headway.core.estimate.job_size import (
    TRUSTED,
    Known,
    SizeEstimate,
    estimate_size,
    learn,
    settle,
)
from headway.core.fairness.deadlines import SOON, Allocation, Need, allocate
from headway.core.fairness.priority_weights import differs
from headway.core.fairness.reference import (
    ReferenceJob,
    ReferenceJobs,
    advance,
    fair_rates,
    promise,
)
from headway.core.fairness.water_filling import total_completion, weights_for
from headway.core.model.decision import Plan, SetShare
from headway.core.model.job import Job, Phase, Replica
from headway.core.model.serialization import memory, record
from headway.core.model.snapshot import Snapshot
from headway.core.model.units import Cores, CoreSeconds, JobId, ReplicaId, Seconds
from headway.policy.common.per_replica_work import crew, part, part_of

SEEN: Seconds = 1.0
"""A look back over less than this tells nothing of what a job can use."""
NEXT = 8
"""How many of the next jobs the places of thin ones are tried among."""


@memory
class HeadwayMemory:
    at: Seconds = 0.0
    shadows: ReferenceJobs
    beliefs: dict[ReplicaId, SizeEstimate]
    rates: dict[ReplicaId, Cores]
    """What each was to get, by the last decision."""
    parts: dict[ReplicaId, Cores]
    """What it could have had at the least by its weight, had it wanted it all the time."""
    kinds: dict[str, Known]
    """What ended jobs took, by command or model."""


@record
class Headway:
    name: str = "headway"
    listens: bool = True
    objective: str = "completion"
    """`completion`, or `quality`: the time until 95 % of a job's improvement is reached."""
    interval: Seconds = 10.0
    """It looks again at least this often while several jobs share the node."""
    lag: float = 0.03
    """How far a job of uncertain size may fall behind its fair share once it might have finished
    there: this part of its time, and a second."""
    late: float = 0.09
    """For `quality` alone: completion may be this much later than promised."""

    def begin(self) -> HeadwayMemory:
        return HeadwayMemory(shadows={}, beliefs={}, rates={}, parts={}, kinds={})

    def decide(self, snapshot: Snapshot, memory: HeadwayMemory) -> tuple[Plan, HeadwayMemory]:
        node = _Node(self, snapshot, memory)
        node.catch_up()
        if not node.ours:
            return Plan(), memory
        found = allocate(node.needs(), node.order(), node.cores, snapshot.at, self.interval)
        memory.rates = found.rates
        wake = None if len(node.ours) == 1 else max(SOON, min(found.calm_for, node.interval()))
        plan = Plan(decisions=node.shares(found), wake_after=wake, look=(snapshot.node.id,))
        return plan, memory


class _Node:
    """One decision: the real node, the reference node, and what is known of each job."""

    def __init__(self, policy: Headway, snapshot: Snapshot, memory: HeadwayMemory) -> None:
        self.policy, self.snapshot, self.memory = policy, snapshot, memory
        self.now = snapshot.at
        self.cores, self.speed = snapshot.node.capacity.cpu, snapshot.node.speed
        self.ours = {r.id: r for r in snapshot.running}
        self.elapsed = self.now - memory.at
        self.took: dict[JobId, list[CoreSeconds]] = {}
        """By replica, what jobs took that have ended since."""

    # -- the reference world ---------------------------------------------------------------

    def catch_up(self) -> None:
        """Bring the reference world up to now, and its promises up to what is now known."""
        m = self.memory
        elapsed = self.elapsed
        m.at = self.now
        advance(m.shadows, self.cores, elapsed)
        ended = {job.id: job for job in self.snapshot.changed.ended}
        gone = [n for n in m.beliefs if n not in self.ours]
        stale = [self._leave(n, ended.get(n.job), elapsed) for n in gone]
        self._learn(ended)
        stale += [self._update(name, r) for name, r in self.ours.items()]
        for name in [n for n, s in m.shadows.items() if s.left and s.finished]:
            del m.shadows[name]
        if any(stale):
            promise(m.shadows, self.cores, self.now)

    def _leave(self, name: ReplicaId, job: Job | None, elapsed: Seconds) -> bool:
        """Who succeeded runs on in the reference world to its true size; others leave at once."""
        m = self.memory
        shadow, belief, rate = m.shadows[name], m.beliefs.pop(name), m.rates.pop(name, 0.0)
        if job is None or job.phase is not Phase.SUCCEEDED:
            del m.shadows[name]
            return True
        took = belief.attained + rate * elapsed
        if belief.error <= TRUSTED and abs(took - belief.size) <= TRUSTED * belief.size:
            took = belief.size  # as it said, as far as can be told
        self.took.setdefault(job.id, []).append(took)
        shadow.left = True
        known, shadow.size, shadow.least, shadow.sure = shadow.sure, took, took, True
        return not known

    def _learn(self, ended: dict[JobId, Job]) -> None:
        """What is remembered of a kind is about whole jobs; a gang may be on other nodes too."""
        kinds = self.memory.kinds
        for name, took in self.took.items():
            spec = ended[name].spec
            if spec.kind:
                whole = sum(took) * self.speed * (crew(spec) / len(took))
                kinds[spec.kind] = learn(kinds.get(spec.kind), whole)

    def _update(self, name: ReplicaId, r: Replica) -> bool:
        """Take in a newcomer, or what has been learnt of a job; did a promise change by it?"""
        m, job = self.memory, self.snapshot.jobs[r.job]
        known = part_of(m.kinds.get(job.spec.kind), crew(job.spec))
        belief = estimate_size(part(job.spec), r.attained, r.track.step, known, self.speed)
        if self.policy.objective == "quality":
            settle(belief, job.spec, r.track, m.beliefs.get(name))
        m.beliefs[name] = belief
        shadow = m.shadows.get(name)
        if shadow is None:
            shadow = m.shadows[name] = ReferenceJob(
                demand=self._most(r), weight=2.0**job.priority, request=self.snapshot.request(r)
            )
            before = None
        else:
            before = (shadow.size, shadow.least, shadow.demand, shadow.sure)
        shadow.demand = self._demand(name, job, r, shadow.demand)
        shadow.size, shadow.least = belief.size, belief.least
        shadow.sure = belief.error <= TRUSTED
        now = (shadow.size, shadow.least, shadow.demand, shadow.sure)
        return before is None or not all(_close(a, b) for a, b in zip(before, now, strict=True))

    def _demand(self, name: ReplicaId, job: Job, r: Replica, before: Cores) -> Cores:
        """What it can use at once: as told, or as seen when it left some of its share unused.

        What it could have had by its weight is what counts. What it was meant to have says less:
        who sleeps now and then may find the CPU taken.
        """
        told = job.spec.expected.demand if job.spec.expected else None
        if told is not None:
            return min(self._most(r), told)
        used, could = r.usage.cpu if r.usage else 0.0, self.memory.parts.get(name, 0.0)
        if self.elapsed < SEEN:
            return before
        if used > 0.95 * before:
            return min(self._most(r), 1.5 * before)
        if could >= before / 2 and 0 < used < 0.9 * could:  # else it had too little to show it
            return min(before, 1.1 * used)
        return before

    def _most(self, r: Replica) -> Cores:
        """What it may use at once."""
        ceiling = self.snapshot.ceiling(r)
        return self.cores if ceiling is None else min(self.cores, ceiling)

    def interval(self) -> Seconds:
        """Soon, while a size is unknown that the next steps will tell."""
        sizes = ((self.snapshot.jobs[r.job], self.memory.beliefs[n]) for n, r in self.ours.items())
        telling = any(job.spec.total_steps and b.error == inf for job, b in sizes)
        return min(SEEN, self.policy.interval) if telling else self.policy.interval

    # -- what is needed, and wanted ------------------------------------------------------------

    def needs(self) -> dict[ReplicaId, Need]:
        """What keeps each job's promise."""
        m, equal = self.memory, fair_rates(self.memory.shadows, self.cores)
        return {
            n: self._need(r, m.shadows[n], m.beliefs[n], equal[n]) for n, r in self.ours.items()
        }

    def _need(self, r: Replica, s: ReferenceJob, b: SizeEstimate, equal: Cores) -> Need:
        age = self.now - self.snapshot.jobs[r.job].submitted_at
        due = s.due
        if self.policy.objective == "quality":
            due += self.policy.late * (due - self.now + age)
        if s.sure or s.done < b.least:
            left = max(1e-9, b.least - b.attained)
            return Need(demand=s.demand, left=left, due=due, sure=s.sure)
        # It might have finished by now under fair sharing. From here on it may lag a little, in
        # time rather than in work: what was lost when few were here takes long to make up among
        # many. Who has all that it can use could never catch up, and may not lag at all.
        lag = self.policy.lag * min(s.done, age * equal) + equal
        room = b.attained - s.done + (1 - equal / s.demand) * lag
        return Need(demand=s.demand, equal=equal, room=room if b.error < inf else -inf)

    def order(self) -> list[ReplicaId]:
        """Who goes first if no promise speaks against it."""
        if self.policy.objective == "quality":
            return sorted(self.ours, key=self._to_quality)
        return self._smith()

    def _smith(self) -> list[ReplicaId]:
        """For the least mean completion: Smith's rule, from the back. Last goes the longest of
        those whose promise allows it, then the same among the rest.
        """
        left = {n: self._left(n) for n in self.ours}
        due = {n: self.memory.shadows[n].due for n in self.ours}
        end = self.now + sum(left.values()) / self.cores
        rest, order = list(self.ours), []
        while rest:
            able = [n for n in rest if due[n] >= end - SOON] or [max(rest, key=due.__getitem__)]
            last = max(reversed(able), key=left.__getitem__)
            rest.remove(last)
            order.append(last)
            end -= left[last] / self.cores
        return self._place_thin(order[::-1])

    def _place_thin(self, order: list[ReplicaId]) -> list[ReplicaId]:
        """Smith's rule is for jobs that can fill the node. One that cannot hardly delays those it
        runs beside: among the next few, it goes where the sum of completions is least.
        """
        head, tail = order[:NEXT], order[NEXT:]
        jobs = {n: (self._left(n), self.memory.shadows[n].demand) for n in head}
        best = total_completion([jobs[n] for n in head], self.cores)
        sure = [n for n in head if self.memory.shadows[n].sure]
        for thin in [n for n in sure if jobs[n][1] < self.cores]:
            others = [n for n in head if n != thin]
            for i in range(len(head)):
                tried = [*others[:i], thin, *others[i:]]
                total = total_completion([jobs[n] for n in tried], self.cores)
                if total < best * (1 - 1e-9):
                    head, best = tried, total
        return head + tail

    def _left(self, name: ReplicaId) -> CoreSeconds:
        """Work left, as far as anybody knows; of an unknown size, as much as has been done."""
        b = self.memory.beliefs[name]
        return b.attained if b.size == inf else max(0.0, b.size - b.attained)

    def _to_quality(self, name: ReplicaId) -> tuple[bool, CoreSeconds]:
        """Who has reached its quality comes after all others."""
        b = self.memory.beliefs[name]
        left = self._left(name) - (0.0 if b.size == inf else (1 - b.settles) * b.size)
        return (True, self._left(name)) if left <= 0 else (False, left)

    # -- the decision --------------------------------------------------------------------------

    def shares(self, found: Allocation[ReplicaId]) -> tuple[SetShare, ...]:
        caps = [self.memory.shadows[n].demand for n in self.ours]
        wanted = [found.rates[n] for n in self.ours]
        weights = dict(zip(self.ours, weights_for(wanted, caps), strict=True))
        total = sum(weights.values())
        self.memory.parts = {n: self.cores * w / total for n, w in weights.items()}
        limits = {n: self.snapshot.ceiling(r) for n, r in self.ours.items()}
        return tuple(
            SetShare(replica=n, limit=limits[n], weight=weights[n], reason=self._why(n, found))
            for n, r in self.ours.items()
            if differs(r, limits[n], weights[n])
        )

    def _why(self, name: ReplicaId, found: Allocation[ReplicaId]) -> str:
        s, b = self.memory.shadows[name], self.memory.beliefs[name]
        if name in found.urgent:
            return f"its promise, {s.due - self.now:.0f} s from now, allows no delay"
        if b.error == inf:
            return "of unknown size: its fair share"
        if name in found.behind:
            return "as far behind its fair share as it may be"
        if found.rates[name] > 0:
            return f"{self._left(name):.0f} core-seconds left: done soonest"
        promised = f"; promised within {s.due - self.now:.0f} s" if s.due < inf else ""
        return f"waits for shorter ones{promised}"


def _close(a: float, b: float) -> bool:
    return a == b or abs(a - b) <= 1e-6 * max(abs(a), abs(b))
