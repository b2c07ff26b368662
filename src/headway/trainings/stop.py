"""A request to stop the process."""

import time

NAP_S = 0.05
"""Longest delay until a waiting process notices a request to stop."""


class Stop:
    """A flag, which a signal handler can set safely."""

    def __init__(self) -> None:
        self.requested = False

    def request(self, *_: object) -> None:
        self.requested = True

    def wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not self.requested and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, NAP_S))
