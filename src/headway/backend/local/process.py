"""One attempt of a replica as processes of this machine."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from headway.backend.local.enforcement.select import Group
from headway.core.model.units import Bytes, NodeId, ReplicaId


@dataclass(slots=True)
class Process:
    """A shell, the training below it, and the group that limits both."""

    replica: ReplicaId
    attempt: int
    node: NodeId
    folder: Path
    group: Group
    requested_memory: Bytes = 0.0
    held_memory: Bytes = 0.0
    pid: int = 0
    pidfd: int = -1
    child: subprocess.Popen[bytes] | None = None

    def open(self, pid: int) -> int:
        """A descriptor that becomes readable when the process has exited."""
        self.pid, self.pidfd = pid, os.pidfd_open(pid)
        return self.pidfd

    def reap(self) -> None:
        if self.child is not None:
            self.child.wait()
            self.child = None
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1
