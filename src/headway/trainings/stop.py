"""Whether the process was asked to end."""

import time

NAP_S = 0.05
"""The longest that a waiting process does not look whether it is to stop."""


class Stop:
    """A flag: setting it is all that may safely be done in the handler of a signal."""

    def __init__(self) -> None:
        self.asked = False

    def ask(self, *_: object) -> None:
        self.asked = True

    def wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not self.asked and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, NAP_S))
