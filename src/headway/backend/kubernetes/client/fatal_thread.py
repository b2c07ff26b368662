"""Threads whose silent end nobody would notice: it ends the process instead, aloud."""

import logging
import os
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

P = ParamSpec("P")

LOST = 3
"""Exit code of a Headway that may no longer act: another one takes over."""
leave: Callable[[int], object] = os._exit
log = logging.getLogger("headway")


def fatal_thread(run: Callable[P, None]) -> Callable[P, None]:
    """For what a thread runs. What it did not foresee leaves the rest of us half blind."""

    @wraps(run)
    def running(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            run(*args, **kwargs)
        except Exception:
            log.exception("%s failed, and Headway with it", run.__qualname__)
            leave(LOST)

    return running
