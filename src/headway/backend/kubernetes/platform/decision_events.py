"""Decisions about running jobs as Kubernetes events: what the policy does, and why.

Placements have an event of their own when they are durable. Shares change too often: the node
records each resize of a pod.
"""

from collections.abc import Iterable

from headway.core.model.decision import Decision, Move, Scale, Suspend
from headway.core.model.units import ReplicaId


def describe(decision: Decision) -> str:
    """Return its text; empty: it has no event.

    >>> first, second = ReplicaId("a/x/worker-0"), ReplicaId("a/x/worker-1")
    >>> describe(Move(replica=first, to="n", reason="converged"))
    'move worker-0 to n: converged'
    >>> describe(Scale(job="a/x", task="worker", add=((second, "n"),), reason="room is free"))
    'add worker-1 on n: room is free'
    """
    match decision:
        case Move(replica=replica, to=to):
            what = f"move {replica.name} to {to}"
        case Scale(add=add, remove=remove):
            added = ", ".join(f"{replica.name} on {node}" for replica, node in add)
            taken = _names(remove)
            parts = (f"add {added}" if added else "", f"remove {taken}" if taken else "")
            what = "; ".join(filter(None, parts))
        case Suspend():
            what = "suspend"
        case _:
            return ""
    return f"{what}: {decision.reason}" if decision.reason else what


def _names(replicas: Iterable[ReplicaId]) -> str:
    return ", ".join(replica.name for replica in replicas)
