"""Start a replica so that it survives Headway and no attempt is started twice.

A shell of a dozen lines runs between Headway and the training. It claims the attempt by creating
`pid.ATTEMPT`, which succeeds only once, enters the cgroups, and writes `exit.ATTEMPT` when the
training has exited. The next Headway reads both files.
"""

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import sleep

from headway import failpoint
from headway.backend.exit_reason import KILLED
from headway.backend.job_store import prepare
from headway.backend.local.enforcement import procfs

SHIM = """
folder=$1 attempt=$2 where=$3; shift 3
# failpoint shim.claim
set -C; { echo $$ >"$folder/pid.$attempt"; } 2>/dev/null || exit 0; set +C
trap : TERM INT HUP
# failpoint shim.claimed
(
  while [ "$1" != -- ]; do echo 0 >"$1" || exit 126; shift; done; shift
  cd "$where" || exit 126
  exec "$@"
)
code=$?
# failpoint shim.exit
echo $code >"$folder/exit.$attempt"
"""
PATIENCE = 400
"""Reads, five milliseconds apart, of a claim whose pid is not written yet."""


def start(
    folder: Path,
    attempt: int,
    argv: Sequence[str],
    *,
    cpus: Sequence[int] | None,
    env: Mapping[str, str],
    where: str,
    entrances: Sequence[str],
) -> subprocess.Popen[bytes]:
    """Start a replica. Its output goes to `out.log`: a pipe would break when Headway dies."""
    prepare(folder, attempt)
    words = [str(folder), str(attempt), where, *entrances, "--", *argv]
    failpoint.hit("replica.start")
    with (folder / "out.log").open("ab") as log, _on(cpus):
        return subprocess.Popen(
            ["/bin/sh", "-c", failpoint.in_shell(SHIM), "headway", *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=dict(env),
            cwd="/",
            start_new_session=True,
        )


@contextmanager
def _on(cpus: Sequence[int] | None) -> Iterator[None]:
    """Processes started in this context inherit these CPUs."""
    if cpus is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def claimed_by(folder: Path, attempt: int) -> int | None:
    """The pid of the shell that claimed this attempt; it follows the claim. None: not started."""
    for _ in range(PATIENCE):
        try:
            text = (folder / f"pid.{attempt}").read_text()
        except FileNotFoundError:
            return None
        if text.endswith("\n"):
            return int(text)
        sleep(0.005)
    return None


def alive(pid: int, folder: Path) -> bool:
    """Whether that process exists and belongs to the replica; pids are reused."""
    return procfs.stat(pid) is not None and procfs.environment(pid).get("HEADWAY_DIR") == str(
        folder
    )


def exit_code(folder: Path, attempt: int) -> int:
    """What the shell wrote before it exited, unless it was killed too."""
    with suppress(OSError, ValueError):
        return int((folder / f"exit.{attempt}").read_text())
    return KILLED


def ended_at(folder: Path, attempt: int) -> float:
    """When it exited, as time of day; without an exit code, when it started."""
    end = folder / f"exit.{attempt}"
    return (end if end.exists() else folder / f"pid.{attempt}").stat().st_mtime
