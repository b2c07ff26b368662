"""A replica as processes of this machine."""

import os
from typing import TYPE_CHECKING

from headway.backend import state
from headway.backend.local import launcher
from headway.backend.local.enforcement.cgroup import Group
from headway.backend.state import Work
from headway.backend.usage import UsageSample
from headway.core.model.units import NodeId, ReplicaId

if TYPE_CHECKING:
    import subprocess


class Member(state.Member):
    """A shell, the training below it, and the group that holds both down."""

    def __init__(self, name: ReplicaId, work: Work, node: NodeId, group: Group) -> None:
        super().__init__(name, work, node)
        self.group = group
        self.pid, self.pidfd = 0, -1
        self.child: subprocess.Popen[bytes] | None = None

    def read(self, before: UsageSample | None) -> UsageSample:
        return self.group.read(before)

    def watch(self, pid: int) -> int:
        """A descriptor that can be waited for: readable when the process has ended."""
        self.pid = pid
        self.pidfd = os.pidfd_open(pid)
        return self.pidfd

    def bury(self) -> None:
        if self.child is not None:
            self.child.wait()
            self.child = None
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1

    def ended(self) -> int:
        """Bury it; its exit code."""
        self.bury()
        self.fall_silent()
        if self.work.job.adopted is not None:
            return 0
        return launcher.exit_code(self.folder, self.epoch)
