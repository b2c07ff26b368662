"""The cluster state as one record, for the first line of a new journal file."""

from headway.core.cycle.cluster_state import ClusterState, remember
from headway.core.model.job import Replica
from headway.core.model.report import Progress
from headway.core.model.serialization import record
from headway.core.model.snapshot import Observation
from headway.core.model.units import JobId


@record
class FoldedState:
    seen: Observation
    """A complete observation that leads to this state. Its replicas have their metric history."""
    former: tuple[Replica, ...] = ()
    totals: tuple[tuple[JobId, Progress], ...] = ()
    queue: tuple[JobId, ...] = ()
    """Order of the pending jobs. It differs from the order of arrival if some were suspended."""


def fold_state(s: ClusterState) -> FoldedState:
    seen = Observation(
        at=s.at,
        complete=True,
        nodes=tuple(s.nodes[name] for name in s.names if name in s.nodes),
        jobs=tuple(s.jobs.values()),
        replicas=tuple(s.replicas.values()),
        capabilities=s.capabilities,
    )
    return FoldedState(
        seen=seen,
        former=tuple(r for each in s.former.values() for r in each.values()),
        totals=tuple(s.totals.items()),
        queue=tuple(s.queue),
    )


def unfold_state(folded: FoldedState) -> ClusterState:
    s = remember(ClusterState(), folded.seen)
    for r in folded.former:
        s.former.setdefault(r.job, {})[r.id] = r
    s.totals.update(folded.totals)
    s.queue = dict.fromkeys(folded.queue)
    return s
