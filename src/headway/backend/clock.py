"""Seconds since the start of a run, also in a later process that resumes the run.

Durations are measured by CLOCK_BOOTTIME, which also runs while the machine is suspended and cannot
be set. The start is also stored as time of day, which is used after a reboot.
"""

import logging
from collections.abc import Mapping
from time import CLOCK_BOOTTIME, clock_gettime, time
from typing import Any

from headway.backend.procfs import boot_id
from headway.core.model.units import Seconds

JUMP: Seconds = 5.0
"""Smallest jump of the time of day that is reported."""
log = logging.getLogger("headway")


class Clock:
    """A clock that never runs backward, even if the time of day is set."""

    def __init__(
        self,
        began: float | None = None,
        boot: Mapping[str, Any] | None = None,
        at_least: Seconds = 0.0,
    ) -> None:
        """Arguments for a resumed run: its start as time of day, the `boot` of its earlier clock,
        and the latest known time of the run.
        """
        wall, since_boot = time(), clock_gettime(CLOCK_BOOTTIME)
        self.began = wall if began is None else began
        self._ahead = wall - since_boot
        self._zero = since_boot - (wall - self.began)
        if boot and boot.get("id") == boot_id():
            self._zero = float(boot["at"])
        missing = at_least - self()
        if missing > 0:
            log.warning(
                "the time of day is %.0f s before the last event of this run: the clock was set "
                "back. The run continues at %.0f s.", missing, at_least,
            )  # fmt: skip
            self._zero -= missing

    @property
    def boot(self) -> dict[str, Any]:
        """Boot id and zero of this clock, for a later process since the same boot."""
        return {"id": boot_id(), "at": self._zero}

    def __call__(self) -> Seconds:
        return clock_gettime(CLOCK_BOOTTIME) - self._zero

    def at(self, wall: float) -> Seconds:
        """Convert a time of day to seconds of the run: not negative, and not in the future."""
        return max(0.0, min(0.0, wall - time()) + self())

    def check(self) -> None:
        """Log a warning if the time of day was changed."""
        ahead = time() - clock_gettime(CLOCK_BOOTTIME)
        if abs(ahead - self._ahead) > JUMP:
            change = ahead - self._ahead
            log.warning(
                "the time of day jumped by %+.0f s; durations of this run are not affected", change
            )
            self._ahead = ahead
