"""Describe why a replica failed, by its exit code and its log."""

import re
import signal
from pathlib import Path

from headway.metrics.reader import last_line

NOT_STARTABLE = (126, 127)
"""Exit codes of a shell for a command that cannot be started."""
INCOMPLETE = ("ModuleNotFoundError: ", ": can't open file ", " cannot be imported: ")
"""Parts of the last line if a module or the script itself is missing: of Python, and of a built-in
training without its framework."""
SIGNALLED = 128
KILLED = SIGNALLED + signal.SIGKILL
STOPPED = SIGNALLED + signal.SIGTERM
_SHELL = re.compile(r"headway: (?:line )?\d+: exec: (.+?)(?:: not found)?$")
"""Prefix of the message of the shell if it cannot start a job."""
_SIGNALS = frozenset(int(s) for s in signal.Signals)


def is_permanent(code: int, reason: str) -> bool:
    """Return whether a retry would fail in the same way.

    >>> is_permanent(1, "exited with code 1: ModuleNotFoundError: No module named 'torch'")
    True
    """
    return code in NOT_STARTABLE or any(words in reason for words in INCOMPLETE)


def exit_reason(code: int, folder: Path, *, oom_killed: bool) -> str:
    """Return why a replica failed; empty: it succeeded."""
    if code == 0:
        return ""
    if oom_killed:
        return "OOMKilled: exceeded its memory limit"
    said = last_line(folder)
    if code in NOT_STARTABLE and (found := _SHELL.match(said)):
        said = found[1]
    if code == NOT_STARTABLE[1]:
        return f"command not found: {said}"
    if code > SIGNALLED and code - SIGNALLED in _SIGNALS:
        return f"killed by {signal.Signals(code - SIGNALLED).name}"
    return f"exited with code {code}" + (f": {said}" if said else "")
