"""Seconds since the start of a run, also in a later process that resumes it."""

from time import monotonic, time

from headway.core.model.units import Seconds


class Clock:
    """Monotonic; only the start is a time of day."""

    def __init__(self, began: float | None = None) -> None:
        self.began = time() if began is None else began
        self._zero = monotonic() - (time() - self.began)

    def __call__(self) -> Seconds:
        return monotonic() - self._zero
