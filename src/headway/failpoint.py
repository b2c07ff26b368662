"""One hook for crash tests: `HEADWAY_CRASH_AFTER_WRITES=N` kills this process at its N-th
durable write or call to the platform. With N = 1, 2, … every gap between two of them is tried.
"""

import os
import signal

_left = int(os.environ.get("HEADWAY_CRASH_AFTER_WRITES") or 0)


def hit() -> None:
    """Called just before every durable write and every call that changes the platform."""
    global _left  # noqa: PLW0603 - one count for the whole process is what it is for
    if _left:
        _left -= 1
        if not _left:
            os.kill(os.getpid(), signal.SIGKILL)
