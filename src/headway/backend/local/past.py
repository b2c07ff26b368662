"""What an earlier Headway left in a job's folder: who runs, who ended and how. Reads only."""

from dataclasses import dataclass, field
from pathlib import Path

from headway.backend.local import launch
from headway.backend.local.transit import planned
from headway.core.job import Mode
from headway.core.units import NodeId


@dataclass(slots=True)
class Try:
    """One start of a job: what became of each replica, by the name of its folder."""

    running: dict[str, int] = field(default_factory=dict)
    codes: dict[str, int] = field(default_factory=dict)
    left: set[str] = field(default_factory=set)
    """Of those that ended, who was asked to and had saved itself."""


@dataclass(slots=True)
class Past:
    tries: list[Try] = field(default_factory=list)
    """The first start first; its epoch is its place in the list, counted from 1."""
    started: float | None = None
    """Time of day."""
    ended: float | None = None
    cancelled: bool = False


def past(folder: Path, mode: Mode) -> Past:
    found = Past(cancelled=(folder / "cancelled").exists())
    replicas = [p for p in sorted(folder.glob("*-*")) if p.is_dir()]
    last = max((launch.last_epoch(p) for p in replicas), default=0)
    for epoch in range(1, last + 1):
        attempt = Try()
        for replica in replicas:
            pid = launch.claimed_by(replica, epoch)
            if pid is None:
                continue
            claim, end = replica / f"pid.{epoch}", replica / f"exit.{epoch}"
            found.started = found.started or claim.stat().st_mtime
            if launch.alive(pid, replica):
                attempt.running[replica.name] = pid
            else:
                code = attempt.codes[replica.name] = launch.exit_code(replica, epoch)
                if planned(replica, epoch, code, mode):
                    attempt.left.add(replica.name)
                found.ended = (end if end.exists() else claim).stat().st_mtime
        found.tries.append(attempt)
    return found


def node_of(replica: Path) -> NodeId:
    return NodeId((replica / "node").read_text())
