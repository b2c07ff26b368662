"""A progress bar for work that takes longer than two seconds."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

DELAY = 2.0


@contextmanager
def shown(what: str, *, quiet: bool = False) -> Iterator[Callable[[int, int], None]]:
    if quiet or not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import Progress

    began = monotonic()
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None, visible=False)

        def update(done: int, total: int) -> None:
            late = monotonic() - began > DELAY
            bar.update(task, completed=done, total=total, visible=late)

        yield update
