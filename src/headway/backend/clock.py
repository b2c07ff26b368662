"""Seconds since the start of a run, also in a later process that resumes it.

Durations are measured by the clock of the machine since its boot, which also runs while the machine
is suspended and cannot be set. Only the start is a time of day: it counts after a reboot.
"""

import logging
from collections.abc import Mapping
from time import CLOCK_BOOTTIME, clock_gettime, time
from typing import Any

from headway.backend.procfs import boot_id
from headway.core.model.units import Seconds

JUMP: Seconds = 5.0
"""Smallest change of the time of day against the machine's clock that is reported."""
log = logging.getLogger("headway")


class Clock:
    """It never runs backward, whatever happens to the time of day."""

    def __init__(
        self,
        began: float | None = None,
        boot: Mapping[str, Any] | None = None,
        at_least: Seconds = 0.0,
    ) -> None:
        """Of a run that is resumed: its start as time of day, the `boot` of its clock, and the
        latest time that is known of it.
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
        """What a later process needs if the machine was not rebooted meanwhile."""
        return {"id": boot_id(), "at": self._zero}

    def __call__(self) -> Seconds:
        return clock_gettime(CLOCK_BOOTTIME) - self._zero

    def at(self, wall: float) -> Seconds:
        """When it was this time of day: within the run, and not in the future."""
        return max(0.0, min(0.0, wall - time()) + self())

    def check(self) -> None:
        """Report that the time of day was changed."""
        ahead = time() - clock_gettime(CLOCK_BOOTTIME)
        if abs(ahead - self._ahead) > JUMP:
            change = ahead - self._ahead
            log.warning(
                "the time of day jumped by %+.0f s; durations of this run are not affected", change
            )
            self._ahead = ahead
