"""What an earlier Headway left of each attempt: a running process, an exit code, or nothing."""

from collections.abc import Iterator
from dataclasses import dataclass

from headway.backend.job_store import JobStore
from headway.backend.local import launcher
from headway.backend.local.process import Process
from headway.controller.events import ReplicaExited, ReplicaFound
from headway.controller.job_state import JobState
from headway.core.model.units import NodeId, ReplicaId


@dataclass(frozen=True, slots=True)
class Left:
    replica: ReplicaId
    node: NodeId
    attempt: int
    pid: int | None
    """None: it has exited."""
    exit_code: int | None
    ended: float | None
    """Time of day."""


def attempts(store: JobStore, state: JobState) -> Iterator[Left]:
    """The attempts that a job's state names, as far as they were started."""
    for each in state.replicas:
        folder = store.replica(each.replica)
        pid = launcher.claimed_by(folder, each.attempt)
        if pid is None:
            continue
        (folder / "ask").unlink(missing_ok=True)
        if launcher.alive(pid, folder):
            yield Left(each.replica, each.node, each.attempt, pid, None, None)
        else:
            code = launcher.exit_code(folder, each.attempt)
            ended = launcher.ended_at(folder, each.attempt)
            yield Left(each.replica, each.node, each.attempt, None, code, ended)


def to_found(p: Process, exited: ReplicaExited | None) -> ReplicaFound:
    limit, weight = p.group.share() if exited is None else (None, 1.0)
    return ReplicaFound(p.replica, p.attempt, exited is None, exited, limit, weight)
