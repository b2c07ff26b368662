"""CPU that other programs use during a measurement."""

import os
from time import monotonic, process_time

from headway.backend.procfs import busy_time
from headway.core.model.units import Cores, CoreSeconds


class Others:
    """Measures what processes outside Headway use from now on, apart from our job."""

    def __init__(self) -> None:
        self._at, self._busy = monotonic(), self._now()

    def used(self, ours: CoreSeconds) -> Cores:
        return max(0.0, self._now() - self._busy - ours) / (monotonic() - self._at)

    def _now(self) -> CoreSeconds:
        return busy_time(os.sched_getaffinity(0)) - process_time()
