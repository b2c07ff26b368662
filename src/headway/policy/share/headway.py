"""`headway`: jobs finish earlier, and none later than under fair sharing
(docs/explanation/nobody-loses.md).

The policy keeps a reference world, in which each job gets its fair share. The finish time of a job
there is its guarantee. Within the guarantees, CPU goes to the jobs with the least remaining work,
except where another job must run now for its guarantee.
"""

from dataclasses import replace
from math import inf

from headway.core.estimate import cpu_demand
from headway.core.estimate.job_size import (
    TRUSTED,
    Known,
    SizeEstimate,
    estimate_size,
    learn,
    settle,
)
from headway.core.estimate.step_rate import SERVER
from headway.core.fairness.allocation import SOON, Allocation, Need, allocate
from headway.core.fairness.priority_weights import differs
from headway.core.fairness.reference import (
    ReferenceJob,
    ReferenceJobs,
    advance,
    fair_rates,
    set_guarantees,
)
from headway.core.fairness.smith_order import Waiting, smith_order
from headway.core.fairness.water_filling import weights_for
from headway.core.model.decision import Plan, SetShare
from headway.core.model.job import Job, Phase, Replica
from headway.core.model.serialization import memory, record
from headway.core.model.snapshot import Snapshot
from headway.core.model.units import Cores, CoreSeconds, JobId, ReplicaId, Seconds
from headway.policy.common.gang_shares import divide_among_gangs, size_gangs_alike
from headway.policy.common.name_list import list_names
from headway.policy.common.per_replica_work import known_per_replica, per_replica, working_replicas
from headway.policy.share.unknown_size import why_unknown

SEEN: Seconds = 1.0
"""How long a job goes first to show its demand."""
CATCH_UP: Seconds = 2.0
"""Time in which a job of unknown size catches up with its fair share."""
PROBES = 3
"""How often a replica of known size is served first to see how much it can use."""


@memory
class HeadwayMemory:
    at: Seconds = 0.0
    cores: Cores = 0.0
    """Available since the last decision."""
    reference: ReferenceJobs
    estimates: dict[ReplicaId, SizeEstimate]
    rates: dict[ReplicaId, Cores]
    """What each replica was to get, by the last decision."""
    minimum_cores: dict[ReplicaId, Cores]
    """What each replica could have used at least, by its weight."""
    probes: dict[ReplicaId, int]
    """How often a replica is still served first for a second, to see how much it can use."""
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
        return HeadwayMemory(
            reference={}, estimates={}, rates={}, minimum_cores={}, probes={}, kinds={}
        )

    def decide(self, snapshot: Snapshot, memory: HeadwayMemory) -> tuple[Plan, HeadwayMemory]:
        node = _Node(self, snapshot, memory)
        node.catch_up()
        if not node.ours:
            return Plan(), memory
        found = allocate(
            node.needs(),
            node.order(),
            node.cores,
            snapshot.at,
            self.interval,
            node.drift,
            whole=node.whole,
        )
        divide_among_gangs(found.rates, {n: memory.reference[n].demand for n in node.ours})
        memory.rates = found.rates
        wake = None if len(node.ours) == 1 else node.wake_after(found.calm_for)
        plan = Plan(decisions=node.shares(found), wake_after=wake, look=(snapshot.node.id,))
        return plan, memory


class _Node:
    """One decision: the node, its reference world, and the size estimates of its jobs."""

    def __init__(self, policy: Headway, snapshot: Snapshot, memory: HeadwayMemory) -> None:
        self.policy, self.snapshot, self.memory = policy, snapshot, memory
        self.now = snapshot.at
        self.cores, self.speed = snapshot.node.available, snapshot.node.speed
        self.whole = snapshot.node.capacity.cpu
        self.ours = {r.id: r for r in snapshot.adjustable}
        self.were_unknown = self._of_unknown_size()
        """Replicas of unknown size at the last decision; those at this one are in `unknown`."""
        self.elapsed = self.now - memory.at
        self.used = cpu_demand.usage_since(self.ours.values(), memory.at, self.now)
        self.had = 1.0
        """Part of the cores of the last decision that other processes really left."""
        if self.elapsed >= cpu_demand.MEASURED:
            could, replicas = memory.minimum_cores, self.ours.values()
            self.had = cpu_demand.part_left(replicas, self.used, could, memory.cores)
        self.unseen: list[ReplicaId] = []
        """Replicas of known size of which it was not seen yet how much they can use."""
        self.ended_work: dict[JobId, list[CoreSeconds]] = {}
        """Work of each replica of the jobs that have ended since the last decision."""

    # -- the reference world ---------------------------------------------------------------------

    def catch_up(self) -> None:
        """Advance the reference world to now, and update its guarantees."""
        m, elapsed = self.memory, self.elapsed
        advance(m.reference, self.had * (m.cores or self.cores), elapsed, self._idle())
        other_cores = m.cores != self.cores
        m.at, m.cores = self.now, self.cores
        ended = {job.id: job for job in self.snapshot.changed.ended}
        gone = [n for n in m.estimates if n not in self.ours]
        stale = [self._leave(n, ended.get(n.job), elapsed) for n in gone]
        self._learn(ended)
        estimates = {name: self._estimate(r) for name, r in self.ours.items()}
        size_gangs_alike(estimates)
        stale += [self._update(r, estimates[name]) for name, r in self.ours.items()]
        for name in [n for n, s in m.reference.items() if s.left and s.finished]:
            del m.reference[name]
        self.unknown = self._of_unknown_size()
        if any(stale) or self.unknown or other_cores:
            set_guarantees(m.reference, self.cores, self.now)
        self.due = self._due_times()

    def _due_times(self) -> dict[ReplicaId, Seconds]:
        """Return the guarantees to keep: as if other processes used no CPU from now on. Then they
        are kept whenever and however much the foreign load changes.
        """
        jobs = self.memory.reference
        if self.cores < self.whole:
            jobs = {n: replace(s) for n, s in jobs.items()}
            set_guarantees(jobs, self.whole, self.now)
        return self._to_keep(jobs)

    def _to_keep(self, jobs: ReferenceJobs) -> dict[ReplicaId, Seconds]:
        return {n: s.end if _past_least(self.memory, n) else s.due for n, s in jobs.items()}

    def _idle(self) -> dict[ReplicaId, Cores]:
        """Return what jobs of unknown size used of their shares, if it was less than they got."""
        got = {n: 0.9 * self.had * self.memory.rates.get(n, 0.0) for n in self.were_unknown}
        return {n: u for n, u in self.used.items() if u < got.get(n, 0.0)}

    def _of_unknown_size(self) -> set[ReplicaId]:
        return {n for n, e in self.memory.estimates.items() if e.error == inf}

    def _leave(self, name: ReplicaId, job: Job | None, elapsed: Seconds) -> bool:
        """A job that succeeded stays in the reference world up to its actual size; others leave."""
        m = self.memory
        twin, estimate, rate = m.reference[name], m.estimates.pop(name), m.rates.pop(name, 0.0)
        m.probes.pop(name, None)
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

    def _estimate(self, r: Replica) -> SizeEstimate:
        m, spec = self.memory, self.snapshot.jobs[r.job].spec
        known = known_per_replica(m.kinds.get(spec.kind), working_replicas(spec))
        estimate = estimate_size(per_replica(spec), r.progress, known, self.speed)
        if self.policy.objective == "quality":
            settle(estimate, spec, r.history, m.estimates.get(r.id))
        return estimate

    def _update(self, r: Replica, estimate: SizeEstimate) -> bool:
        """Add a replica or update its estimate; return whether guarantees change."""
        m, name, job = self.memory, r.id, self.snapshot.jobs[r.job]
        m.estimates[name] = estimate
        twin = m.reference.get(name)
        if twin is None:
            request, weight, owner = self.snapshot.request(r), 2.0**job.priority, job.spec.owner
            twin = ReferenceJob(demand=self._most(r), weight=weight, request=request, owner=owner)
            m.reference[name] = twin
            before = None
        else:
            before = (twin.size, twin.least, twin.demand, twin.sure)
        twin.demand = self._demand(name, job, r, twin.demand)
        if estimate.error < inf and m.probes[name] > 0:
            self.unseen.append(name)
            m.estimates[name] = estimate = SizeEstimate(attained=estimate.attained)
        twin.resize(estimate.size, estimate.least, sure=estimate.error <= TRUSTED)
        now = (twin.size, twin.least, twin.demand, twin.sure)
        return before is None or not all(_close(a, b) for a, b in zip(before, now, strict=True))

    def _demand(self, name: ReplicaId, job: Job, r: Replica, before: Cores) -> Cores:
        """Return the cores that it can use: as declared (but for parameter servers) or measured."""
        m, most = self.memory, self._most(r)
        used = self.used.get(name) if self.elapsed >= cpu_demand.MEASURED else None
        declared = job.spec.expected.demand if job.spec.expected else None
        if declared is not None and r.task != SERVER:
            m.probes[name] = 0
            return min(most, cpu_demand.declared_demand(declared, used))
        m.probes.setdefault(name, PROBES)
        if used is None:
            return before
        could = self.had * m.minimum_cores.get(name, 0.0)
        fair = self.had * m.rates.get(name, 0.0) or inf if name in self.were_unknown else inf
        seen = cpu_demand.measured_demand(before, used, could, fair, time=self.elapsed)
        if seen.shown:
            m.probes[name] = 0
        return min(most, seen.cores)

    def _most(self, r: Replica) -> Cores:
        """Return the most cores that it may use."""
        ceiling = self.snapshot.ceiling(r)
        return self.whole if ceiling is None else min(self.whole, ceiling)

    def wake_after(self, calm_for: Seconds) -> Seconds:
        """Return when rates must change, or when the demand or size of a job may be seen."""
        if self.unseen:
            return SEEN
        news = self.policy.interval
        for name in (n for n in self.unknown if n.task != SERVER):
            told = self.snapshot.jobs[name.job].spec.total_steps
            news = min(news, SEEN if told else max(SEEN, self.memory.estimates[name].attained))
        return max(SOON, min(calm_for, news, self._fair_for()))

    def _fair_for(self) -> Seconds:
        """Return how long the fair shares of jobs of unknown size stay as they are."""
        reference = self.memory.reference
        if not self.unknown:
            return inf
        rates = fair_rates(reference, self.cores)
        ends = ((s.size - s.done) / rates[n] for n, s in reference.items() if s.sure and rates[n])
        estimates = self.memory.estimates
        lack = any(reference[n].done - estimates[n].attained > SOON for n in self.unknown)
        return min([CATCH_UP if lack else inf, *ends])

    def drift(self, time: Seconds) -> dict[ReplicaId, Seconds]:
        """Return by how much guarantees move while unknown jobs or a foreign load go on."""
        if not self.unknown and self.cores == self.whole:
            return {}
        later = {n: replace(s) for n, s in self.memory.reference.items()}
        advance(later, self.cores, time)
        set_guarantees(later, self.whole, self.now + time)
        return {n: t - self.due[n] for n, t in self._to_keep(later).items() if t < inf}

    # -- needs and order -------------------------------------------------------------------------

    def needs(self) -> dict[ReplicaId, Need]:
        """Return what keeps the guarantee of each replica."""
        m, equal = self.memory, fair_rates(self.memory.reference, self.cores)
        found = {
            n: self._need(r, m.reference[n], m.estimates[n], equal[n]) for n, r in self.ours.items()
        }
        for name in self.unseen[:1]:
            found[name].probe = True
            m.probes[name] -= 1
        return found

    def _need(self, r: Replica, s: ReferenceJob, b: SizeEstimate, equal: Cores) -> Need:
        due = self.due[r.id]
        age = self.now - self.snapshot.jobs[r.job].submitted_at
        if self.policy.objective == "quality":
            due += self.policy.late * (due - self.now + age)
        near = _past_least(self.memory, r.id)
        left = max(1e-9, (b.size if near else b.least) - b.attained)
        if s.sure or s.done < b.least:
            return Need(demand=s.demand, left=left, due=due, sure=s.sure)
        if b.error == inf:
            return Need(demand=s.demand, equal=self._owed(s, b, equal), unknown=True)
        # It might have finished by now under fair sharing; from here on it may lag, in time, not in
        # work, which takes longer to make up among many jobs. One at its full speed may not lag.
        lag = self.policy.lag * min(s.done, age * equal) + equal
        room = b.attained - s.done + (1 - equal / s.demand) * lag
        return Need(demand=s.demand, left=left, due=due if near else inf, equal=equal, room=room)

    def _owed(self, s: ReferenceJob, b: SizeEstimate, equal: Cores) -> Cores:
        """Return the share of a job of unknown size: the fair one, and what it lacks; none if it is
        ahead because of a wrong estimate.
        """
        lacks = s.done - b.attained
        if b.wrong and lacks < 0:
            return 0.0
        return min(2 * equal, equal + max(0.0, lacks) / CATCH_UP)

    def order(self) -> list[ReplicaId]:
        """Return the order in which replicas are served, as far as guarantees allow."""
        if self.policy.objective == "quality":
            return sorted(self.ours, key=self._to_quality)
        return self._smith_order()

    def _smith_order(self) -> list[ReplicaId]:
        """Jobs of unknown size come last; their shares are fixed."""
        waiting = {
            n: Waiting(left=self._left(n), due=self.due[n], demand=s.demand, movable=s.sure)
            for n, s in ((n, self.memory.reference[n]) for n in self.ours if n not in self.unknown)
        }
        known = smith_order(waiting, self.now, fits=self.whole, cores=self.cores)
        return known + [n for n in self.ours if n not in waiting]

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
        reference = self.memory.reference
        caps = [min(reference[n].demand, self.cores) for n in self.ours]
        exact = {i for i, n in enumerate(self.ours) if n in self.unknown}
        wanted = [found.rates[n] for n in self.ours]
        others = self.snapshot.node.count - len(self.ours)
        weights = dict(zip(self.ours, weights_for(wanted, caps, exact, others), strict=True))
        total = sum(weights.values())
        self.memory.minimum_cores = {n: self.cores * w / total for n, w in weights.items()}
        limits = {n: self.snapshot.ceiling(r) for n, r in self.ours.items()}
        return tuple(
            SetShare(replica=n, limit=limits[n], weight=weights[n], reason=self._why(n, found))
            for n, r in self.ours.items()
            if differs(r, limits[n], weights[n])
        )

    def _why(self, name: ReplicaId, found: Allocation[ReplicaId]) -> str:
        s = self.memory.reference[name]
        if name in found.urgent and found.rates[name] > 0:
            if (late := self.now - s.due) > 0.5:
                return f"{late:.0f} s overdue, goes first"
            return f"guaranteed to finish within {max(0.0, -late):.0f} s, which allows no delay"
        if self.unseen[:1] == [name]:
            return "goes first for a second, to show how many cores it can use"
        if name.task == SERVER:
            return "its workers wait for it: fair share"
        if name in self.unknown:
            b, spec = self.memory.estimates[name], self.snapshot.jobs[name.job].spec
            alone, unseen = len(self.ours) == 1, name in self.unseen
            return why_unknown(b, s.done, spec, found.rates[name], alone=alone, unseen=unseen)
        if name in found.behind:
            return "behind its fair share, catches up"
        rate = found.rates[name]
        ahead = [n for n, r in found.rates.items() if r > rate]
        if not ahead or rate >= min(s.demand, self.cores) / 2:
            return f"about {self._left(name):.0f} s of CPU left; runs first"
        known = [self._left(n) for n in ahead if n not in self.unknown]
        left = f" (about {sum(known):.0f} s of CPU left)" if known else ""
        due = f"; guaranteed to finish within {s.due - self.now:.0f} s" if s.due < inf else ""
        verb = "gets spare CPU beside" if rate > 0 else "waits for"
        return f"{verb} {list_names(list(dict.fromkeys(n.job for n in ahead)))}{left}{due}"


def _close(a: float, b: float) -> bool:
    return a == b or abs(a - b) <= 1e-6 * max(abs(a), abs(b))


def _past_least(m: HeadwayMemory, name: ReplicaId) -> bool:
    """Return whether a job of about known size may have ended, here or in the reference world."""
    s, b = m.reference[name], m.estimates.get(name)
    return b is not None and b.near and max(s.done, b.attained) >= b.least
