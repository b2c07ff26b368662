"""Decisions about running jobs as Kubernetes events: what the policy does, and why.

Placements have an event of their own when they are durable. Shares change too often: the node
records each resize of a pod.
"""

from headway.core.model.decision import Decision, Move, Scale, Suspend


def describe(decision: Decision) -> str:
    """Return its text; empty: it has no event.

    >>> from headway.core.model.units import ReplicaId
    >>> first, second = ReplicaId("a/x/worker-0"), ReplicaId("a/x/worker-1")
    >>> describe(Move(replica=first, to="n", reason="converged"))
    'move worker-0 to n: converged'
    >>> describe(Scale(job="a/x", task="worker", add=((second, "n"),), reason="room is free"))
    'add worker-1 on n: room is free'
    """
    match decision:
        case Move(replica=replica, to=to):
            what = f"move {replica.name} to {to}"
        case Scale():
            what = decision.change
        case Suspend():
            what = "suspend"
        case _:
            return ""
    return f"{what}: {decision.reason}" if decision.reason else what
