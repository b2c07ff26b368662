"""Seconds since a run began, also for the Headway that takes it up again."""

from time import monotonic, time

from headway.core.model.units import Seconds


class Clock:
    """Goes by the monotonic clock; only when it began is a time of day."""

    def __init__(self, began: float | None = None) -> None:
        self.began = time() if began is None else began
        self._zero = monotonic() - (time() - self.began)

    def __call__(self) -> Seconds:
        return monotonic() - self._zero
