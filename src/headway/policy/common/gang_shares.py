"""The share of a gang on one node, divided among its replicas there.

The replicas of a gang wait for each other. A replica that gets less than the others holds them up,
and what they get beyond it is of no use.
"""

from collections.abc import Iterable, Mapping
from math import inf

from headway.core.estimate.job_size import SizeEstimate
from headway.core.estimate.step_rate import SERVER
from headway.core.fairness.water_filling import share
from headway.core.model.units import Cores, JobId, ReplicaId


def size_gangs_alike(estimates: dict[ReplicaId, SizeEstimate]) -> None:
    """Forget sizes that cannot decide when a replica is served. A parameter server works as its
    workers demand, so that it has no size. Of a gang of which one size is unknown, all are.
    """
    for gang in _gangs(estimates):
        if any(estimates[n].error == inf for n in gang):
            _forget(estimates, gang)
    _forget(estimates, (n for n in estimates if n.task == SERVER))


def _forget(estimates: dict[ReplicaId, SizeEstimate], names: Iterable[ReplicaId]) -> None:
    for name in names:
        known = estimates[name]
        estimates[name] = SizeEstimate(attained=known.attained, wrong=known.wrong)


def divide_among_gangs(rates: dict[ReplicaId, Cores], demands: Mapping[ReplicaId, Cores]) -> None:
    """Give the replicas of each gang equal parts of what they get together, as far as they can use
    it.

    >>> one, two = ReplicaId("x/worker-0"), ReplicaId("x/worker-1")
    >>> rates = {one: 0.6, two: 0.0, ReplicaId("y/main-0"): 0.4}
    >>> divide_among_gangs(rates, dict.fromkeys(rates, 1.0))
    >>> list(rates.values())
    [0.3, 0.3, 0.4]
    """
    for gang in _gangs(rates):
        total, caps = sum([rates[n] for n in gang]), [demands[n] for n in gang]
        rates.update(zip(gang, share(total, caps, [1.0] * len(gang)), strict=True))


def _gangs(replicas: Iterable[ReplicaId]) -> list[list[ReplicaId]]:
    """Return the replicas of each job that has several, without parameter servers."""
    found: dict[JobId, list[ReplicaId]] = {}
    for name in replicas:
        if name.task != SERVER:
            found.setdefault(name.job, []).append(name)
    return [gang for gang in found.values() if len(gang) > 1]
