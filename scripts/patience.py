"""How long a test waits for what must come true, on a machine that others use too."""

import os
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess, Popen, TimeoutExpired
from time import monotonic, sleep
from typing import Any, TypeVar

T = TypeVar("T")
PATIENCE = 60.0
"""Seconds of a machine that is not loaded."""


class Deadline:
    """Passes after so many seconds in which a process could have used a CPU: on a machine with
    three busy processes for each CPU that takes three times as long.
    """

    def __init__(self, seconds: float = PATIENCE) -> None:
        self._left, self._looked = seconds, monotonic()

    def passed(self) -> bool:
        now = monotonic()
        self._left -= (now - self._looked) / busy()
        self._looked = now
        return self._left < 0


def busy() -> float:
    """Threads that run or could run, for each CPU; at least one."""
    running = Path("/proc/loadavg").read_text().split()[3].partition("/")[0]
    return max(1.0, int(running) / len(os.sched_getaffinity(0)))


def wait_for(claim: Callable[[], T], patience: float = PATIENCE, every: float = 0.02) -> T:
    """Wait until it is true, and return it."""
    deadline = Deadline(patience)
    while not (found := claim()):
        assert not deadline.passed(), "it never came true"  # noqa: S101 - a failure of the test
        sleep(every)
    return found


def end_of(
    process: Popen[Any], patience: float = PATIENCE, given: str | None = None
) -> CompletedProcess[Any]:
    """Wait until a process has exited. One that does not is killed. `given`: its input."""
    deadline = Deadline(patience)
    while True:
        try:
            out, err = process.communicate(given, timeout=1.0)
            return CompletedProcess(process.args, process.returncode, out, err)
        except TimeoutExpired:
            given = None  # it was taken
            if deadline.passed():
                process.kill()
                process.wait()
                raise
