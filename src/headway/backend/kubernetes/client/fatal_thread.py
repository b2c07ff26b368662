"""Threads whose unexpected end would go unnoticed: it ends the process instead."""

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


def exit_process(error: Exception) -> None:
    """Log an unexpected exception of a thread, and end the process."""
    log.error("a thread failed unexpectedly, Headway exits", exc_info=error)
    leave(LOST)


def fatal_thread(run: Callable[P, None]) -> Callable[P, None]:
    """For what a thread runs: an exception in it ends the process."""

    @wraps(run)
    def running(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            run(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - the outermost guard of this thread
            exit_process(error)

    return running
