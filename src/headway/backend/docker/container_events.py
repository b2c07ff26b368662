"""The state of a container as events."""

from headway.backend.checkpoints import newest
from headway.backend.docker import cpu_limits
from headway.backend.docker.container import ContainerState
from headway.backend.docker.container_table import ContainerRecord
from headway.backend.exit_reason import NOT_STARTABLE, exit_reason
from headway.controller.events import ReplicaExited, ReplicaFound, ReplicaRunning, ShareInEffect
from headway.core.model.job import Mode
from headway.core.model.units import Seconds

KILLED = 137
"""Exit code of a container that was removed."""


def running(c: ContainerRecord) -> ReplicaRunning:
    return ReplicaRunning(c.replica, c.attempt)


def present_share(c: ContainerRecord, seen: ContainerState) -> ShareInEffect:
    limit, weight = cpu_limits.share(seen.host, c.engine.capacity.cpu)
    return ShareInEffect(c.replica, c.attempt, limit, weight)


def exited(
    c: ContainerRecord,
    seen: ContainerState | None,
    mode: Mode,
    *,
    disrupted: bool = False,
    at: Seconds | None = None,
) -> ReplicaExited:
    """`seen`: None if it was removed. `disrupted`: its engine was down meanwhile."""
    removed = seen is None or seen.state == "created"
    code = KILLED if seen is None or removed else seen.code
    disrupted = disrupted and not removed and code != 0
    if removed:
        reason = "container was removed"
    elif disrupted:
        reason = f"the engine of node {c.node} stopped, and its containers with it"
    else:
        reason = exit_reason(code, c.folder, oom_killed=seen is not None and seen.oom)
    return ReplicaExited(
        replica=c.replica,
        attempt=c.attempt,
        code=code,
        reason=reason,
        permanent=code in NOT_STARTABLE,
        disrupted=disrupted,
        checkpoint=newest(c.folder, mode),
        at=at,
    )


def found(c: ContainerRecord, seen: ContainerState, ended: ReplicaExited | None) -> ReplicaFound:
    share = present_share(c, seen)
    return ReplicaFound(c.replica, c.attempt, seen.running, ended, share.limit, share.weight)
