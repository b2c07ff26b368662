"""Start a replica so that it outlives Headway and no attempt is started twice.

A short shell script runs between Headway and the training. It claims the attempt by renaming
`free.ATTEMPT` to `claim.ATTEMPT`, which succeeds only once. It writes its pid to this file, enters
the cgroups, starts the training, and writes the exit code to `exit.ATTEMPT`. The next Headway
process reads both files.

The files exist before the shell starts, and it overwrites them in place. So no exit code is lost on
a full disk. The files are not in the folder of the replica, because the job can write there.
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
"""Maximum number of reads of a claim that is still blank."""
INTERVAL = 0.005
"""Seconds between two reads."""
BLANK = " " * 99 + "\n"
MOST_RECORD = 200


@dataclass(frozen=True, slots=True)
class Claim:
    """Identity of the shell of an attempt. Pids are reused, and start times repeat
    after a reboot.
    """

    pid: int = 0
    """0: the shell ended before it wrote its pid."""
    began: int = 0
    boot: str = ""

    @property
    def alive(self) -> bool:
        return self.of_this_boot and self.pid > 0 and procfs.start_time(self.pid) == self.began

    @property
    def of_this_boot(self) -> bool:
        return self.boot == procfs.boot_id()

    def left(self, sessions: Mapping[int, Sequence[int]]) -> Sequence[int]:
        """Return the processes of its session, which may outlive it. `sessions`: all sessions."""
        left = sessions.get(self.pid, ())
        if not left or not self.of_this_boot:
            return ()
        # Another process may have its pid now.
        return left if procfs.start_time(self.pid) in (0, self.began) else ()


@dataclass(frozen=True, slots=True)
class Files:
    """Files of an attempt. The job writes to `folder`, the shell to `records`."""

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
    """Start a replica. Its output goes to `out.log`, because a pipe would break if Headway dies."""
    prepare(files.folder, files.attempt)
    allocate(files.records, files.attempt)
    words = [str(files.records), str(files.attempt), where, *entrances, "--", *argv]
    failpoint.hit("replica.start")
    log = open_log(files.folder)
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
    """Create the record files, unless the attempt was claimed before."""
    durable.make(records)
    if (records / f"claim.{attempt}").exists():
        return
    failpoint.hit("replica.records")
    for name in ("exit", "free"):
        (records / f"{name}.{attempt}").write_text(BLANK)


def open_log(folder: Path) -> int:
    """Open the log of a replica. Anything else with this name is replaced."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    try:
        return job_files.open_file(folder, "out.log", flags)
    except OSError:  # an earlier attempt has replaced the file
        job_files.remove_file(folder, "out.log")
        return job_files.open_file(folder, "out.log", flags)


@contextmanager
def on_cpus(cpus: Sequence[int] | None) -> Iterator[None]:
    """Context in which started processes inherit these CPUs."""
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
    """Return the shell that claimed this attempt; None: it was not started.

    The pid is written shortly after the claim. A blank claim is read again while it is young; after
    a power cut it may stay blank.
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
    """Return the recorded exit code; None: the shell was killed, or the machine stopped."""
    with suppress(OSError, ValueError):
        code, _ = _read(records / f"exit.{attempt}")
        return int(code)
    return None


def ended_at(records: Path, attempt: int) -> float:
    """Return the time of day of the exit; without an exit code, that of the start."""
    exited = exit_code(records, attempt) is not None
    return (records / f"{'exit' if exited else 'claim'}.{attempt}").stat().st_mtime


def _read(path: Path) -> list[str]:
    """Return the words of a complete record (its last word is a dot), otherwise nothing."""
    with path.open("rb") as file:
        words = file.read(MOST_RECORD).decode(errors="replace").split()
    return words if words[-1:] == ["."] else []
