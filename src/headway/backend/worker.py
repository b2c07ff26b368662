"""What other threads have for the loop's thread, which alone changes anything of ours."""

import os
from collections import deque
from collections.abc import Callable


class LoopQueue:
    """Closures for the loop's thread, and a descriptor that wakes it."""

    def __init__(self) -> None:
        self._letters: deque[Callable[[], None]] = deque()
        self.file = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def put(self, letter: Callable[[], None]) -> None:
        self._letters.append(letter)
        os.eventfd_write(self.file, 1)

    def read(self) -> None:
        try:
            os.eventfd_read(self.file)
        except BlockingIOError:
            return
        while self._letters:
            self._letters.popleft()()

    def close(self) -> None:
        os.close(self.file)
