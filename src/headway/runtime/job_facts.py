"""Facts about each job for users: progress, size, guarantee, ETA, and the reason of its share. They
are derived from the state of the loop and the memory of the policy, in a live run or simulation, or
from its journal.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from math import inf
from typing import Any

from headway.core.cycle.cluster_state import ClusterState
from headway.core.cycle.policy import ChainMemory, PerNodeMemory, Policy
from headway.core.cycle.project import project
from headway.core.estimate.job_size import (
    KNOWN_AFTER,
    Known,
    SizeEstimate,
    from_kind,
    from_steps,
)
from headway.core.estimate.progress import efficiencies
from headway.core.model.decision import Plan, SetShare
from headway.core.model.job import Job, Replica
from headway.core.model.report import MetricHistory
from headway.core.model.snapshot import Changes, Snapshot, Trigger
from headway.core.model.units import Cores, CoreSeconds, JobId, ReplicaId, Seconds
from headway.policy.common.per_replica_work import known_per_replica, per_replica, working_replicas
from headway.policy.share.headway import HeadwayMemory
from headway.runtime.job_status import finite
from headway.runtime.usage_sampler import ReplicaSample
from headway.runtime.waiting import waiting_reasons

IDLE: Cores = 0.01
"""Usage below which no ETA is derived from the usage."""
EXPLAINED = 1000
"""Maximum number of jobs in the queue for which facts are computed."""
WAITS = 0.5
"""A job that uses less than this fraction of its share is not limited by CPU."""
BUSY = 0.9
"""Fraction of a node in use from which on programs outside Headway compete with its jobs."""
UNSET = 1e9
"""A weight that no policy sets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """Facts about one job. None or empty: unknown. Times are seconds of the run, work is in
    core-seconds.
    """

    at_s: Seconds
    phase: str
    value: float | None = None
    found: str = ""
    """Where its metric was found."""
    step: float | None = None
    total_steps: float | None = None
    attained: CoreSeconds = 0.0
    size: CoreSeconds | None = None
    size_error: float | None = None
    size_from: str = ""
    demand: Cores | None = None
    """Cores that the job can use, declared or measured."""
    growth: dict[str, float] = field(default_factory=dict)
    """Growth efficiency of the first replica by resource; empty: unknown."""
    guarantee_s: Seconds | None = None
    """Guarantee: latest time at which the job finishes."""
    eta_s: Seconds | None = None
    """Expected time at which the job finishes: by the steps per second at its present share, else
    by its CPU usage (an equal share if it hardly runs). The guarantee, if it is earlier and the
    share delays the job."""
    reason: str = ""
    """Why the job waits or has its present share,"""
    decided_s: Seconds = 0.0
    """by the decision at this time."""

    def plain(self) -> dict[str, Any]:
        return asdict(self) | {"value": finite(self.value)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Size:
    """Remaining work of a replica."""

    left: CoreSeconds
    error: float
    source: str
    fresh: bool = False
    """Whether it is derived from the last sample instead of the last cycle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Usage and metrics of the replicas, newer than the state of the loop."""

    at: Seconds
    latest: Mapping[str, ReplicaSample] = field(default_factory=dict)


def job_facts(
    state: ClusterState,
    policy: Policy[Any],
    memory: Any,
    samples: Samples | None = None,
    reasons: Mapping[ReplicaId, str] | None = None,
) -> dict[JobId, JobFacts]:
    """Return the facts about each unfinished job; of jobs in the queue, only about the first ones.
    `reasons`: the reasons of shares, if they are already computed.
    """
    samples = samples or Samples(at=state.at)
    reasons = share_reasons(state, policy, memory) if reasons is None else reasons
    nodes = {name: m for m in _headway(memory) for name in m.reference}
    first = dict.fromkeys(islice(state.queue, EXPLAINED))
    found = {
        job.id: _facts(state, job, nodes, samples, reasons)
        for job in state.jobs.values()
        if job.id not in state.queue or job.id in first
    }
    ends = {name: facts.eta_s for name, facts in found.items()}
    for name, why in waiting_reasons(state, ends, samples.at, EXPLAINED).items():
        found[name] = replace(found[name], reason=_both(found[name].reason, why))
    return found


def _both(before: str, why: str) -> str:
    """Join the reason for which a job waits again and the reason for which it waits now."""
    return f"{before}; {why}" if before else why


def share_reasons(state: ClusterState, policy: Policy[Any], memory: Any) -> dict[ReplicaId, str]:
    """Return the reason of the present share of each replica: the reason of the decision that the
    policy would make if all shares were unset. The last decision in the journal may be older,
    because policies decide only about shares that change.
    """
    changed = Changes(nodes=tuple(state.nodes))
    snapshot = Snapshot(state, Trigger.STARTED, changed)
    unset = tuple(
        SetShare(replica=r.id, limit=r.limit, weight=UNSET) for r in state.replicas.values()
    )
    blank = project(Plan(decisions=unset), snapshot)
    blank.queue = {}  # shares do not depend on it, and it may be long
    plan, _ = policy.decide(blank, deepcopy(memory))
    return {d.replica: d.reason for d in plan.decisions if isinstance(d, SetShare)}


def _headway(memory: Any) -> Iterator[HeadwayMemory]:
    """Yield the memories of `headway` in the memory of any combination of policies."""
    members: Sequence[Any] = ()
    match memory:
        case HeadwayMemory():
            yield memory
        case ChainMemory(members=found):
            members = found
        case PerNodeMemory(members=by_node):
            members = list(by_node.values())
    for member in members:
        yield from _headway(member)


def _facts(
    state: ClusterState,
    job: Job,
    nodes: Mapping[ReplicaId, HeadwayMemory],
    samples: Samples,
    reasons: Mapping[ReplicaId, str],
) -> JobFacts:
    replicas = [state.replicas[name] for name in state.of_job.get(job.id, ())]
    seen = {
        r.id: samples.latest.get(r.id, ReplicaSample(cpu=r.usage.cpu if r.usage else 0.0))
        for r in replicas
    }
    ways = {r.id: _size(job, r, nodes.get(r.id), seen[r.id]) for r in replicas}
    sizes = {name: size for name, size in ways.items() if size}
    known = list(sizes.values())
    worst = max((s.error for s in known), default=inf)
    twins = {r.id: nodes[r.id].reference[r.id] for r in replicas if r.id in nodes}
    dues = [t.due for t in twins.values() if t.due < inf]
    due = max(dues) if dues else None
    attained = sum(r.attained for r in replicas)
    unreported = {r.id: seen[r.id].unreported for r in replicas}
    ahead = due is not None and due > samples.at
    finishes = [
        (samples.at if sizes[r.id].fresh else state.at)
        + sizes[r.id].left / _rate(state, r, seen[r.id].cpu, guaranteed=ahead)
        for r in replicas
        if r.id in sizes
    ]
    finish = max(finishes, default=None)
    paces = [_pace(state, job, r, seen[r.id]) for r in replicas]
    paced, reason = [pace for pace in paces if pace], ""
    if paced:
        left, waits, idle = max(paced)
        finish, ahead = samples.at + left, ahead and not waits
        if waits and due is not None and due < finish:
            due, reason = None, NOT_CPU if idle else ""  # a guarantee is about CPU
    first = _reporting(replicas, seen)
    sample = seen[first.id] if first else ReplicaSample()
    return JobFacts(
        at_s=samples.at,
        decided_s=state.at,
        phase=job.phase.value,
        value=sample.value if sample.value is not None else _last_value(first),
        found=sample.found,
        step=sample.step if sample.step is not None else (first.history.step if first else None),
        total_steps=job.spec.total_steps or sample.total,
        attained=attained + sum(unreported.values()),
        size=attained + sum(s.left + s.fresh * unreported[name] for name, s in sizes.items())
        if known
        else None,
        size_error=worst if worst < inf else None,
        size_from=next((s.source for s in known if s.source), ""),
        demand=sum(t.demand for t in twins.values()) if twins else None,
        growth=_growth(job, first),
        guarantee_s=due,
        eta_s=min(finish, due) if finish and due and ahead else finish,
        reason=reason or next((reasons[r.id] for r in replicas if reasons.get(r.id)), job.reason),
    )


def _reporting(
    replicas: Sequence[Replica], seen: Mapping[ReplicaId, ReplicaSample]
) -> Replica | None:
    """Return the first replica that has reported: a parameter server never does."""
    silent = [r.id for r in replicas if seen[r.id].step is None and r.history.step is None]
    return next((r for r in replicas if r.id not in silent), replicas[0] if replicas else None)


def _growth(job: Job, first: Replica | None) -> dict[str, float]:
    if first is None:
        return {}
    return efficiencies(first.history, first.usage, sign=job.spec.direction.sign)


def _pace(
    state: ClusterState, job: Job, r: Replica, seen: ReplicaSample
) -> tuple[Seconds, bool, bool] | None:
    """Return the remaining time by the steps per second of a replica, whether it uses much less
    than its share, and whether its node has idle CPU: only then is it certain that no other share
    makes it faster. None: unknown.
    """
    total = seen.total or job.spec.total_steps
    if not (seen.rate and seen.step is not None and total and r.node in state.nodes):
        return None
    node, there = state.nodes[r.node], [state.replicas[name] for name in state.on_node[r.node]]
    share = min(node.available * r.weight / sum(x.weight for x in there), r.limit or inf)
    used = node.foreign + sum(x.usage.cpu for x in there if x.usage)
    idle = not node.foreign or used < BUSY * node.capacity.cpu
    waits = share >= IDLE and seen.rate_cpu < WAITS * share
    if not waits and seen.cpu < IDLE:
        return None
    return max(0.0, total - seen.step) / seen.rate, waits, idle


def _rate(state: ClusterState, r: Replica, used: Cores, *, guaranteed: bool) -> Cores:
    """Return the cores that a replica will use. If it hardly runs now and has no guarantee, an
    equal share of its node is assumed.
    """
    if used >= IDLE:
        return used
    if guaranteed or r.node not in state.nodes:
        return IDLE
    return state.nodes[r.node].capacity.cpu / len(state.on_node[r.node])


def _size(job: Job, r: Replica, of_node: HeadwayMemory | None, seen: ReplicaSample) -> _Size | None:
    """Return the remaining work of a replica, as estimated by the policy, else by its steps."""
    estimate: SizeEstimate | None = of_node.estimates.get(r.id) if of_node else None
    if of_node is not None and estimate is not None and estimate.size < inf:
        source = _source(job, r, of_node.kinds.get(job.spec.kind))
        left = max(0.0, estimate.size - estimate.attained)
        return _Size(left=left, error=estimate.error, source=source)
    if seen.left is not None:
        if (seen.step or 0.0) < KNOWN_AFTER * (seen.total or job.spec.total_steps or inf):
            return _Size(left=seen.left, error=inf, source=FIRST_STEPS, fresh=True)
        return _Size(left=seen.left, error=0.05, source=STEPS, fresh=True)
    if job.remaining is None:
        return None
    return _Size(left=job.remaining.value, error=job.remaining.error, source=_source(job, r, None))


NOT_CPU = "limited by data loading, disk or sleep, not by CPU: a larger share would not help"
FIRST_STEPS = "guessed from its first steps"
STEPS = "measured from its steps"
EARLIER = "an earlier run of this kind"


def _source(job: Job, r: Replica, kind: Known | None) -> str:
    """Return the source of the best estimate of the size, as `estimate_size` selects it."""
    spec = per_replica(job.spec)
    earlier = known_per_replica(kind, working_replicas(job.spec))
    given = spec.expected.work if spec.expected else None
    found = [
        (STEPS, from_steps(spec, r.progress)),
        ("declared" if given and not given.error else EARLIER, given),
        (EARLIER, from_kind(earlier)),
    ]
    known = [(e.error, i, name) for i, (name, e) in enumerate(found) if e]
    return min(known, default=(0, 0, ""))[2]


def _last_value(r: Replica | None) -> float | None:
    history = r.history if r else MetricHistory()
    values = (w.value for w in reversed(history.windows) if w.value is not None)
    last = next(values, None)
    return None if last is None or history.base is None else history.base + last
