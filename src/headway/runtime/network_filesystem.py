"""Refuse a data directory on a network filesystem: the database of a server is not safe there.

SQLite in WAL mode needs locks and shared memory of one machine (https://sqlite.org/wal.html).
"""

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headway.errors import ConfigError

MOUNTS = Path("/proc/self/mountinfo")
NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "lustre", "beegfs", "gpfs", "glusterfs"}
    | {f"fuse.{name}" for name in ("sshfs", "glusterfs", "ceph-fuse", "s3fs", "rclone", "gcsfuse")}
)
_ESCAPED = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    point: str
    kind: str
    """Type of the filesystem."""

    def __str__(self) -> str:
        return f"{self.kind}, mounted at {self.point}"


def mounts(table: str) -> list[Mount]:
    """Parse `/proc/self/mountinfo`. Lines that are not understood are skipped."""
    found = []
    for line in table.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) > 5 and after:
            point = _ESCAPED.sub(lambda code: chr(int(code[1], 8)), fields[4])
            found.append(Mount(point, after.split(" ")[0]))
    return found


def network_mount(path: Path) -> Mount | None:
    """Return the mount that contains a path if it is of the network; None: local or unknown."""
    with suppress(OSError):
        path.stat()  # an automounter mounts it now
    with suppress(OSError):
        above = {str(folder) for folder in (path, *path.parents)}
        found = mounts(MOUNTS.read_text(encoding="utf-8", errors="surrogateescape"))
        over = [mount for mount in found if mount.point in above]
        # Of several mounts at one point, the last one hides the others.
        mount = max(reversed(over), key=lambda mount: len(mount.point), default=None)
        return mount if mount and mount.kind in NETWORK else None
    return None


def refuse_network(data: Path) -> None:
    mount = network_mount(data)
    if mount is not None:
        raise ConfigError(
            f"the data directory is on a network filesystem ({mount}), where the database of a "
            "server can be damaged",
            where=str(data),
            hint="use a directory on a local disk: HEADWAY_DATA=DIRECTORY, or --data DIRECTORY",
        )
