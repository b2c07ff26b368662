"""`headway`: jobs finish earlier, and none later than under fair sharing
(docs/explanation/nobody-loses.md).

The policy keeps a reference world, in which each job gets its fair share. The finish time of a job
there is its guarantee. Within the guarantees, CPU goes to the jobs with the least remaining work,
except where another job must run now for its guarantee.
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
    set_guarantees,
)
from headway.core.fairness.water_filling import total_completion, weights_for
from headway.core.model.decision import Plan, SetShare
from headway.core.model.job import Job, Phase, Replica
from headway.core.model.serialization import memory, record
from headway.core.model.snapshot import Snapshot
from headway.core.model.units import Cores, CoreSeconds, JobId, ReplicaId, Seconds
from headway.policy.common.per_replica_work import known_per_replica, per_replica, working_replicas

SEEN: Seconds = 1.0
"""Shortest interval over which the demand of a job can be measured."""
NEXT = 8
"""Number of next jobs among which the best position of a narrow job is searched."""


@memory
class HeadwayMemory:
    at: Seconds = 0.0
    reference: ReferenceJobs
    estimates: dict[ReplicaId, SizeEstimate]
    rates: dict[ReplicaId, Cores]
    """What each replica was to get, by the last decision."""
    minimum_cores: dict[ReplicaId, Cores]
    """What each replica could have used at least, by its weight."""
    kinds: dict[str, Known]
    """Work of the jobs that have ended, by command or model."""


@record
class Headway:
    name: str = "headway"
    listens: bool = True
    objective: str = "completion"
    """What to minimize: the time to `completion`, or to `quality` (95 % of the improvement)."""
    interval: Seconds = 10.0
    """Longest time between decisions while several jobs share a node."""
    lag: float = 0.03
    """How far a job of uncertain size may fall behind its fair share, after the time at which it
    might have finished: this fraction of its time, and a second."""
    late: float = 0.09
    """For `quality` only: how much later than guaranteed a job may complete, as a fraction."""

    def begin(self) -> HeadwayMemory:
        return HeadwayMemory(reference={}, estimates={}, rates={}, minimum_cores={}, kinds={})

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
    """One decision: the node, its reference world, and the size estimates of its jobs."""

    def __init__(self, policy: Headway, snapshot: Snapshot, memory: HeadwayMemory) -> None:
        self.policy, self.snapshot, self.memory = policy, snapshot, memory
        self.now = snapshot.at
        self.cores, self.speed = snapshot.node.capacity.cpu, snapshot.node.speed
        self.ours = {r.id: r for r in snapshot.adjustable}
        self.elapsed = self.now - memory.at
        self.ended_work: dict[JobId, list[CoreSeconds]] = {}
        """Work of each replica of the jobs that have ended since the last decision."""

    # -- the reference world ---------------------------------------------------------------------

    def catch_up(self) -> None:
        """Advance the reference world to now, and update its guarantees."""
        m = self.memory
        elapsed = self.elapsed
        m.at = self.now
        advance(m.reference, self.cores, elapsed)
        ended = {job.id: job for job in self.snapshot.changed.ended}
        gone = [n for n in m.estimates if n not in self.ours]
        stale = [self._leave(n, ended.get(n.job), elapsed) for n in gone]
        self._learn(ended)
        stale += [self._update(name, r) for name, r in self.ours.items()]
        for name in [n for n, s in m.reference.items() if s.left and s.finished]:
            del m.reference[name]
        if any(stale):
            set_guarantees(m.reference, self.cores, self.now)

    def _leave(self, name: ReplicaId, job: Job | None, elapsed: Seconds) -> bool:
        """A job that succeeded stays in the reference world up to its actual size; others leave."""
        m = self.memory
        twin, estimate, rate = m.reference[name], m.estimates.pop(name), m.rates.pop(name, 0.0)
        if job is None or job.phase is not Phase.SUCCEEDED:
            del m.reference[name]
            return True
        took = estimate.attained + rate * elapsed
        if estimate.error <= TRUSTED and abs(took - estimate.size) <= TRUSTED * estimate.size:
            took = estimate.size  # equal within the error
        self.ended_work.setdefault(job.id, []).append(took)
        twin.left = True
        known, twin.size, twin.least, twin.sure = twin.sure, took, took, True
        return not known

    def _learn(self, ended: dict[JobId, Job]) -> None:
        """Learn the sizes of whole jobs; a gang may have replicas on other nodes."""
        kinds = self.memory.kinds
        for name, took in self.ended_work.items():
            spec = ended[name].spec
            if spec.kind:
                whole = sum(took) * self.speed * (working_replicas(spec) / len(took))
                kinds[spec.kind] = learn(kinds.get(spec.kind), whole)

    def _update(self, name: ReplicaId, r: Replica) -> bool:
        """Add a replica or update its estimate; return whether guarantees change."""
        m, job = self.memory, self.snapshot.jobs[r.job]
        known = known_per_replica(m.kinds.get(job.spec.kind), working_replicas(job.spec))
        estimate = estimate_size(
            per_replica(job.spec), r.attained, r.history.step, known, self.speed
        )
        if self.policy.objective == "quality":
            settle(estimate, job.spec, r.history, m.estimates.get(name))
        m.estimates[name] = estimate
        twin = m.reference.get(name)
        if twin is None:
            twin = m.reference[name] = ReferenceJob(
                demand=self._most(r), weight=2.0**job.priority, request=self.snapshot.request(r)
            )
            before = None
        else:
            before = (twin.size, twin.least, twin.demand, twin.sure)
        twin.demand = self._demand(name, job, r, twin.demand)
        twin.size, twin.least = estimate.size, estimate.least
        twin.sure = estimate.error <= TRUSTED
        now = (twin.size, twin.least, twin.demand, twin.sure)
        return before is None or not all(_close(a, b) for a, b in zip(before, now, strict=True))

    def _demand(self, name: ReplicaId, job: Job, r: Replica, before: Cores) -> Cores:
        """Return the cores that it can use: as declared, or as measured when it left some of its
        share idle.

        Its usage is compared with what it could have used by its weight. What it was meant to get
        says less: a job that sleeps at times may find the CPU in use.
        """
        declared = job.spec.expected.demand if job.spec.expected else None
        if declared is not None:
            return min(self._most(r), declared)
        used, could = r.usage.cpu if r.usage else 0.0, self.memory.minimum_cores.get(name, 0.0)
        if self.elapsed < SEEN:
            return before
        if used > 0.95 * before:
            return min(self._most(r), 1.5 * before)
        if (
            could >= before / 2 and 0 < used < 0.9 * could
        ):  # otherwise it had too little to show its demand
            return min(before, 1.1 * used)
        return before

    def _most(self, r: Replica) -> Cores:
        """Return the most cores that it may use."""
        ceiling = self.snapshot.ceiling(r)
        return self.cores if ceiling is None else min(self.cores, ceiling)

    def interval(self) -> Seconds:
        """Return a short interval while the next steps will show a size that is unknown."""
        sizes = (
            (self.snapshot.jobs[r.job], self.memory.estimates[n]) for n, r in self.ours.items()
        )
        unknown = any(job.spec.total_steps and b.error == inf for job, b in sizes)
        return min(SEEN, self.policy.interval) if unknown else self.policy.interval

    # -- needs and order -------------------------------------------------------------------------

    def needs(self) -> dict[ReplicaId, Need]:
        """Return what keeps the guarantee of each replica."""
        m, equal = self.memory, fair_rates(self.memory.reference, self.cores)
        return {
            n: self._need(r, m.reference[n], m.estimates[n], equal[n]) for n, r in self.ours.items()
        }

    def _need(self, r: Replica, s: ReferenceJob, b: SizeEstimate, equal: Cores) -> Need:
        age = self.now - self.snapshot.jobs[r.job].submitted_at
        due = s.due
        if self.policy.objective == "quality":
            due += self.policy.late * (due - self.now + age)
        if s.sure or s.done < b.least:
            left = max(1e-9, b.least - b.attained)
            return Need(demand=s.demand, left=left, due=due, sure=s.sure)
        # It might have finished by now under fair sharing, and from here on may lag a little. The
        # bound is in time, not in work: work lost among few jobs takes long to make up among many.
        # A job that has all that it can use could never catch up, and may not lag.
        lag = self.policy.lag * min(s.done, age * equal) + equal
        room = b.attained - s.done + (1 - equal / s.demand) * lag
        return Need(demand=s.demand, equal=equal, room=room if b.error < inf else -inf)

    def order(self) -> list[ReplicaId]:
        """Return the order in which replicas are served, as far as guarantees allow."""
        if self.policy.objective == "quality":
            return sorted(self.ours, key=self._to_quality)
        return self._smith_order()

    def _smith_order(self) -> list[ReplicaId]:
        """Minimize the mean completion time by Smith's rule, from the back: last is the longest of
        the jobs whose guarantees allow it, then the same for the rest.
        """
        left = {n: self._left(n) for n in self.ours}
        due = {n: self.memory.reference[n].due for n in self.ours}
        end = self.now + sum(left.values()) / self.cores
        rest, order = list(self.ours), []
        while rest:
            able = [n for n in rest if due[n] >= end - SOON] or [max(rest, key=due.__getitem__)]
            last = max(reversed(able), key=left.__getitem__)
            rest.remove(last)
            order.append(last)
            end -= left[last] / self.cores
        return self._place_narrow(order[::-1])

    def _place_narrow(self, order: list[ReplicaId]) -> list[ReplicaId]:
        """Smith's rule assumes that each job can use the whole node. A job that cannot (a narrow
        one) delays others little: put it where the sum of completion times is smallest.
        """
        head, tail = order[:NEXT], order[NEXT:]
        jobs = {n: (self._left(n), self.memory.reference[n].demand) for n in head}
        best = total_completion([jobs[n] for n in head], self.cores)
        sure = [n for n in head if self.memory.reference[n].sure]
        for narrow in [n for n in sure if jobs[n][1] < self.cores]:
            others = [n for n in head if n != narrow]
            for i in range(len(head)):
                tried = [*others[:i], narrow, *others[i:]]
                total = total_completion([jobs[n] for n in tried], self.cores)
                if total < best * (1 - 1e-9):
                    head, best = tried, total
        return head + tail

    def _left(self, name: ReplicaId) -> CoreSeconds:
        """Return the estimated work left; if the size is unknown, as much as has been done."""
        b = self.memory.estimates[name]
        return b.attained if b.size == inf else max(0.0, b.size - b.attained)

    def _to_quality(self, name: ReplicaId) -> tuple[bool, CoreSeconds]:
        """Sort key: a job that has reached its quality comes after all others."""
        b = self.memory.estimates[name]
        left = self._left(name) - (0.0 if b.size == inf else (1 - b.settles) * b.size)
        return (True, self._left(name)) if left <= 0 else (False, left)

    # -- the decision ----------------------------------------------------------------------------

    def shares(self, found: Allocation[ReplicaId]) -> tuple[SetShare, ...]:
        caps = [self.memory.reference[n].demand for n in self.ours]
        wanted = [found.rates[n] for n in self.ours]
        weights = dict(zip(self.ours, weights_for(wanted, caps), strict=True))
        total = sum(weights.values())
        self.memory.minimum_cores = {n: self.cores * w / total for n, w in weights.items()}
        limits = {n: self.snapshot.ceiling(r) for n, r in self.ours.items()}
        return tuple(
            SetShare(replica=n, limit=limits[n], weight=weights[n], reason=self._why(n, found))
            for n, r in self.ours.items()
            if differs(r, limits[n], weights[n])
        )

    def _why(self, name: ReplicaId, found: Allocation[ReplicaId]) -> str:
        s, b = self.memory.reference[name], self.memory.estimates[name]
        if name in found.urgent:
            late = self.now - s.due
            return (
                f"{late:.0f} s overdue, goes first"
                if late > 0.5
                else f"guaranteed to finish within {max(0.0, -late):.0f} s, which allows no delay"
            )
        if b.error == inf:
            told = self.snapshot.jobs[name.job].spec.total_steps is not None
            return f"length unknown{' yet' if told else ' (set totalSteps)'}: fair share"
        if name in found.behind:
            return "behind its fair share, catches up"
        if found.rates[name] > 0:
            return f"about {self._left(name):.0f} s of CPU left; runs first"
        count = sum(rate > 0 for rate in found.rates.values())
        ahead = f"behind {count} shorter job{'s' * (count != 1)}"
        due = f"; guaranteed to finish within {s.due - self.now:.0f} s" if s.due < inf else ""
        return ahead + due


def _close(a: float, b: float) -> bool:
    return a == b or abs(a - b) <= 1e-6 * max(abs(a), abs(b))
