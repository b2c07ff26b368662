"""Threads whose unexpected end would go unnoticed: it ends the process instead."""

import logging
import os
from collections.abc import Callable
from threading import Thread

LOST = 3
"""Exit code of a Headway that may no longer act: another one takes over."""
leave: Callable[[int], object] = os._exit
log = logging.getLogger("headway")


def exit_process(error: Exception) -> None:
    """Log an unexpected exception of a thread, and end the process."""
    log.error("a thread failed unexpectedly, Headway exits", exc_info=error)
    leave(LOST)


def start_fatal(run: Callable[[], None], name: str) -> Thread:
    """Start a thread; an exception in it ends the process."""

    def guarded() -> None:
        try:
            run()
        except Exception as error:  # noqa: BLE001 - the outermost guard of this thread
            exit_process(error)

    thread = Thread(target=guarded, name=name, daemon=True)
    thread.start()
    return thread
