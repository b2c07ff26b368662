"""How a replica is started, so that it outlives us and nobody starts it twice.

Between Headway and the training stands a shell of a dozen lines. It claims the start by creating
`pid.EPOCH`, which can be done once only; it lets the training into its groups, and when that has
ended it writes `exit.EPOCH`. Both are there for whoever comes after us.
"""

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import sleep

from headway import failpoint
from headway.backend.local.enforcement import procfs

SHIM = """
folder=$1 epoch=$2 where=$3; shift 3
set -C; { echo $$ >"$folder/pid.$epoch"; } 2>/dev/null || exit 0; set +C
trap : TERM INT HUP
(
  while [ "$1" != -- ]; do echo 0 >"$1" || exit 126; shift; done; shift
  cd "$where" || exit 126
  exec "$@"
)
echo $? >"$folder/exit.$epoch"
"""
PATIENCE = 400
"""Looks, of five milliseconds each, for the number of a shell that has claimed a start."""
KILLED = 137
"""The exit code of what was killed, and could not say so."""


def start(  # noqa: PLR0913 - each is one thing that a process starts with
    folder: Path,
    epoch: int,
    argv: Sequence[str],
    *,
    node: str,
    cpus: Sequence[int] | None,
    env: Mapping[str, str],
    where: str,
    entrances: Sequence[str],
) -> subprocess.Popen[bytes]:
    """Start a replica; its output is appended to `out.log`, which is no pipe: our death must not
    break it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "checkpoint").mkdir(exist_ok=True)
    (folder / "node").write_text(node)
    (folder / "epoch").write_text(str(epoch))
    words = [str(folder), str(epoch), where, *entrances, "--", *argv]
    failpoint.hit()
    with (folder / "out.log").open("ab") as log, _on(cpus):
        return subprocess.Popen(
            ["/bin/sh", "-c", SHIM, "headway", *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=dict(env),
            cwd="/",
            start_new_session=True,
        )


@contextmanager
def _on(cpus: Sequence[int] | None) -> Iterator[None]:
    """What is started meanwhile runs on these CPUs: it inherits where we are."""
    if cpus is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def last_epoch(folder: Path) -> int:
    """How often it has been started; 0: never."""
    claims = [p.suffix[1:] for p in folder.glob("pid.*")]
    return max((int(c) for c in claims if c.isdigit()), default=0)


def claimed_by(folder: Path, epoch: int) -> int | None:
    """The shell that made this start; None: nobody did. Between its claim and its number a moment
    may pass.
    """
    for _ in range(PATIENCE):
        try:
            text = (folder / f"pid.{epoch}").read_text()
        except FileNotFoundError:
            return None
        if text.endswith("\n"):
            return int(text)
        sleep(0.005)
    return None


def alive(pid: int, folder: Path) -> bool:
    """Is that process there, and is it really the replica's? Numbers are used again."""
    return procfs.stat(pid) is not None and procfs.environment(pid).get("HEADWAY_DIR") == str(
        folder
    )


def exit_code(folder: Path, epoch: int) -> int:
    """Once the shell has gone: what it wrote, or that it was killed before it could."""
    with suppress(OSError, ValueError):
        return int((folder / f"exit.{epoch}").read_text())
    return KILLED
