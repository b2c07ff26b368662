"""Permissions of clients. All rules are in this module."""

import os
import socket
import struct
from dataclasses import dataclass

from starlette.requests import Request

from headway.errors import Denied
from headway.runtime.job_status import JobStatus
from headway.runtime.owner import Owner

PEER = "peer"
"""Key of a request for the peer of its connection."""
OPEN = frozenset({"submit", "list"})
"""Actions that all users of the machine may take. `list` shows only the public part of a job."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The process at the other end of a Unix socket, as the kernel knows it."""

    uid: int
    gid: int
    pid: int = 0

    @property
    def owner(self) -> Owner:
        return Owner.find(self.uid, self.gid)


def peer(connection: socket.socket) -> Caller | None:
    """Return the process at the other end of a connection; None: it is not a Unix socket."""
    if connection.family != socket.AF_UNIX:
        return None
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("iII"))
    pid, uid, gid = struct.unpack("iII", packed)
    return Caller(uid, gid, pid)


def caller_of(request: Request) -> Caller:
    """Return the caller of a request. Without a Unix socket it is the user of the server."""
    found: Caller | None = getattr(request.state, PEER, None)
    return found or Caller(os.geteuid(), os.getegid())


def may(caller: Caller, action: str, owner: int | None) -> bool:
    """Whether a caller may do this with a job of this user. None: the server has one user, which
    the permissions of its socket have checked.
    """
    return owner is None or action in OPEN or caller.uid in (0, owner)


def check(caller: Caller, action: str, job: JobStatus) -> None:
    if not may(caller, action, job.uid):
        raise Denied(
            f"permission denied: job {job.job} belongs to {job.user}, and you are "
            f"{caller.owner.shown}",
            where=f"job {job.job}, {action}",
            hint="headway ps shows the name, user, phase and share of the jobs of others",
        )


def check_server(caller: Caller, action: str) -> None:
    """Raise `Denied` unless the caller is root or the user of the server."""
    if caller.uid not in (0, os.geteuid()):
        raise Denied(
            f"permission denied: only root may {action}, and you are {caller.owner.shown}",
            where=action,
        )


def public(job: JobStatus) -> JobStatus:
    """Return the part of a job that other users may see."""
    return JobStatus(
        run=job.run, job=job.job, phase=job.phase, share=job.share, uid=job.uid, user=job.user
    )


def seen_by(caller: Caller, job: JobStatus) -> JobStatus:
    return job if may(caller, "see", job.uid) else public(job)
