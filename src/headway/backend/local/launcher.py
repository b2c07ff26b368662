"""Start a replica so that it survives Headway and no attempt is started twice.

A shell of a dozen lines runs between Headway and the training. It claims the attempt by renaming
`free.ATTEMPT` to `claim.ATTEMPT`, which succeeds only once, notes there which process it is, enters
the cgroups, and notes in `exit.ATTEMPT` how the training has exited. The next Headway reads both.

The files exist before the shell starts, and it overwrites them in place: a full disk loses no exit
code. They are not in the folder of the replica, which the job can write.
"""

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import sleep, time

from headway import failpoint
from headway.backend import durable, procfs
from headway.backend.job_store import prepare
from headway.metrics import job_files

SHIM = """
records=$1 attempt=$2 where=$3; shift 3
# failpoint shim.claim
mv "$records/free.$attempt" "$records/claim.$attempt" 2>/dev/null || exit 0
read -r boot </proc/sys/kernel/random/boot_id
read -r _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ began _ </proc/$$/stat
echo $$ "$began" "$boot" . 1<>"$records/claim.$attempt"
asked=
trap 'asked=1' TERM INT HUP
# failpoint shim.claimed
code=143
if [ -z "$asked" ]; then  # otherwise it was asked to stop before it began
  # failpoint shim.begin
  (
    # failpoint shim.enter
    while [ "$1" != -- ]; do echo 0 >"$1" || exit 126; shift; done; shift
    cd "$where" || exit 126
    exec "$@"
  )
  code=$?
fi
# failpoint shim.exit
echo $code . 1<>"$records/exit.$attempt"
sync "$records/exit.$attempt" 2>/dev/null
"""
PATIENCE = 400
"""Reads of a claim whose process is not written yet."""
INTERVAL = 0.005
"""Seconds between them."""
BLANK = " " * 99 + "\n"
MOST_RECORD = 200


@dataclass(frozen=True, slots=True)
class Claim:
    """The shell of an attempt. Pids are reused, and start times repeat after a reboot."""

    pid: int = 0
    """0: it ended before it noted its pid."""
    began: int = 0
    boot: str = ""

    @property
    def alive(self) -> bool:
        return self.of_this_boot and self.pid > 0 and procfs.start_time(self.pid) == self.began

    @property
    def of_this_boot(self) -> bool:
        return self.boot == procfs.boot_id()

    def left(self, sessions: Mapping[int, Sequence[int]]) -> Sequence[int]:
        """Processes of its session, which outlive it if it is killed. `sessions`: all there are."""
        if not self.of_this_boot or (procfs.start_time(self.pid) not in (0, self.began)):
            return ()  # another process has its pid now
        return sessions.get(self.pid, ())


@dataclass(frozen=True, slots=True)
class Files:
    """Where an attempt writes: the job to its folder, the shell to Headway's records."""

    folder: Path
    records: Path
    attempt: int


def start(
    files: Files,
    argv: Sequence[str],
    *,
    cpus: Sequence[int] | None,
    env: Mapping[str, str],
    where: str,
    entrances: Sequence[str],
) -> subprocess.Popen[bytes]:
    """Start a replica. Its output goes to `out.log`: a pipe would break when Headway dies."""
    prepare(files.folder, files.attempt)
    allocate(files.records, files.attempt)
    words = [str(files.records), str(files.attempt), where, *entrances, "--", *argv]
    failpoint.hit("replica.start")
    log = _open_log(files.folder)
    try:
        with on_cpus(cpus):
            return subprocess.Popen(
                ["/bin/sh", "-c", failpoint.in_shell(SHIM), "headway", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=dict(env),
                cwd="/",
                start_new_session=True,
            )
    finally:
        os.close(log)


def allocate(records: Path, attempt: int) -> None:
    """Room for the records. An attempt that was claimed before has it already."""
    durable.make(records)
    if (records / f"claim.{attempt}").exists():
        return
    failpoint.hit("replica.records")
    for name in ("exit", "free"):
        (records / f"{name}.{attempt}").write_text(BLANK)


def _open_log(folder: Path) -> int:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    try:
        return job_files.open_file(folder, "out.log", flags)
    except OSError:  # an earlier attempt has put something else there
        job_files.remove_file(folder, "out.log")
        return job_files.open_file(folder, "out.log", flags)


@contextmanager
def on_cpus(cpus: Sequence[int] | None) -> Iterator[None]:
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


def claim_of(records: Path, attempt: int) -> Claim | None:
    """The shell that claimed this attempt; its pid follows the claim. None: not started.

    A claim that stays blank, as after a power cut, is waited for only while it is young.
    """
    path = records / f"claim.{attempt}"
    for _ in range(PATIENCE):
        try:
            words, claimed_at = _read(path), path.stat().st_ctime
        except FileNotFoundError:
            return None
        if len(words) == 4:
            with suppress(ValueError):
                return Claim(int(words[0]), int(words[1]), words[2])
        if time() - claimed_at > PATIENCE * INTERVAL:
            break
        sleep(INTERVAL)
    return Claim()


def exit_code(records: Path, attempt: int) -> int | None:
    """What the shell noted before it exited; None: it was killed, or the machine stopped."""
    with suppress(OSError, ValueError):
        code, _ = _read(records / f"exit.{attempt}")
        return int(code)
    return None


def ended_at(records: Path, attempt: int) -> float:
    """When it exited, as time of day; without an exit code, when it started."""
    exited = exit_code(records, attempt) is not None
    return (records / f"{'exit' if exited else 'claim'}.{attempt}").stat().st_mtime


def _read(path: Path) -> list[str]:
    """The words of a record; the last one is a dot if it is complete."""
    with path.open("rb") as file:
        words = file.read(MOST_RECORD).decode(errors="replace").split()
    return words if words[-1:] == ["."] else []
