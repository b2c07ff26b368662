"""What an earlier Headway left: containers with our labels, and a few files beside them.

claim.EPOCH    written before a container is asked for, with the node
start.EPOCH    the container's number, when the engine has started it
exit.EPOCH     how it ended, before the container is removed
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headway import failpoint
from headway.backend.docker import container
from headway.backend.docker.container import EPOCH, JOB, REPLICA, RUN, ContainerState
from headway.backend.docker.engine import Engine
from headway.backend.docker.file_sync import FileSync
from headway.backend.docker.log_follower import LogFollower
from headway.backend.recovery import Past, Try
from headway.backend.state import Work
from headway.backend.transit import planned
from headway.core.model.units import NodeId, ReplicaId, Seconds

GONE = 137
"""The exit code of what was removed while nobody looked."""
LAST_WORDS: Seconds = 10.0
"""For what it printed while nobody listened."""

Key = tuple[str, str, int]
"""Job, folder of the replica, epoch."""


@dataclass(frozen=True, slots=True)
class Left:
    engine: Engine
    found: ContainerState


def containers(engines: Iterable[Engine], run: str) -> dict[Key, Left]:
    """Those of a run, on all its engines. Who was never started is removed."""
    there: dict[Key, Left] = {}
    for engine in engines:
        filters = {"label": [f"{RUN}={run}"]}
        for each in engine.client.get("/containers/json", all=True, filters=filters):
            seen = container.found(engine.client.get(f"/containers/{each['Id']}/json"))
            if seen.state == "created":
                engine.client.delete(f"/containers/{seen.id}", force=True, v=True)
                continue
            replica = ReplicaId(seen.labels[REPLICA]).name
            there[seen.labels[JOB], replica, int(seen.labels[EPOCH])] = Left(engine, seen)
    return there


def past(left: Mapping[Key, Left], work: Work) -> Past:
    found = Past(cancelled=(work.folder / "cancelled").exists())
    replicas = [p for p in sorted(work.folder.glob("*-*")) if p.is_dir()]
    last = max((last_epoch(p) for p in replicas), default=0)
    for epoch in range(1, last + 1):
        attempt = Try()
        for replica in replicas:
            there = left.get((work.id, replica.name, epoch))
            code = _code(replica, epoch, there)
            if code is None and (there is None or not there.found.running):
                continue  # it was claimed, and never started
            found.started = found.started or (replica / f"claim.{epoch}").stat().st_mtime
            if code is None:
                attempt.running.add(replica.name)
                continue
            attempt.codes[replica.name] = code
            if planned(work, replica.name, epoch, code):
                attempt.left.add(replica.name)
            found.ended = (replica / f"exit.{epoch}").stat().st_mtime
        found.tries.append(attempt)
    return found


def _code(replica: Path, epoch: int, there: Left | None) -> int | None:
    """How it ended, and that is then written down; None: it runs, or never did."""
    with suppress(OSError, ValueError):
        return int((replica / f"exit.{epoch}").read_text())
    if there is not None and there.found.running:
        return None
    if there is None:
        if not (replica / f"start.{epoch}").exists():
            return None
        code = GONE
    else:
        seen, code = there.found, there.found.code
        if str(replica) not in seen.shared:
            FileSync(there.engine.client, seen.id, replica, seen.user, epoch).last()
        LogFollower(there.engine.client, seen.id, replica, epoch).over.wait(LAST_WORDS)
    note_exit(replica, epoch, code)
    return code


def last_epoch(folder: Path) -> int:
    """How often it has been started; 0: never."""
    claims = [p.suffix[1:] for p in folder.glob("claim.*")]
    return max((int(c) for c in claims if c.isdigit()), default=0)


def claim(folder: Path, epoch: int, node: NodeId) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "checkpoint").mkdir(exist_ok=True)
    (folder / "epoch").write_text(str(epoch))
    failpoint.hit()
    (folder / f"claim.{epoch}").write_text(node)


def node_of(folder: Path, epoch: int) -> NodeId:
    return NodeId((folder / f"claim.{epoch}").read_text())


def note_start(folder: Path, epoch: int, number: str) -> None:
    failpoint.hit()
    (folder / f"start.{epoch}").write_text(number)


def note_exit(folder: Path, epoch: int, code: int) -> None:
    failpoint.hit()
    (folder / f"exit.{epoch}").write_text(str(code))
