"""Sends reports to the operator of a cluster, in a thread of its own. Standard library only.

While the operator is away, the newest thousand reports wait. Nothing that happens here disturbs the
training: no call blocks, except that the last reports get a few seconds when the process exits.
"""

import json
import os
import ssl
from collections import deque
from contextlib import suppress
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from random import uniform
from threading import Condition, Event, Thread
from urllib.parse import urlsplit

MOST = 1000
"""Reports that wait."""
PAUSE = 5.0
"""Seconds between two requests that succeed,"""
AGAIN, LONGEST = 1.0, 10.0
"""and after one that fails: at first, and at most."""
ANSWER = 5.0
LAST = 3.0
"""Seconds for the last reports."""


class HttpSender:
    def __init__(self, url: str, token: str, certificate: str) -> None:
        """`token` and `certificate` are files."""
        self._to, self._token, self._certificate = urlsplit(url), token, certificate
        self.checkpoint = False
        """Whether the last answer requested a checkpoint."""
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        """Also in a forked process: its parent may hold the lock, and sends its own reports."""
        self._waiting: deque[dict[str, object]] = deque()
        self._first = 0
        """Number of the first report that waits."""
        self._news, self._due, self._empty = Condition(), Event(), Event()
        self._started = False

    def put(self, report: dict[str, object]) -> None:
        with self._news:
            self._waiting.append(report)
            if len(self._waiting) > MOST:
                self._waiting.popleft()
                self._first += 1
            self._empty.clear()
            if not self._started:
                self._started = True
                Thread(target=self._run, name="headway-reports", daemon=True).start()
            self._news.notify()

    def send_soon(self) -> None:
        self._due.set()

    def close(self) -> None:
        """Send what waits now, if that can be done soon."""
        if self._waiting:
            self._due.set()
            self._empty.wait(LAST)

    def _run(self) -> None:
        wait = AGAIN
        while True:
            with self._news:
                # Without reports, too: the answer says whether a checkpoint is requested.
                self._news.wait_for(lambda: self._waiting, PAUSE)
            if self.send():
                wait = AGAIN
                if self._due.wait(PAUSE):
                    self._due.clear()
            else:
                self._due.wait(uniform(wait / 2, wait))
                wait = min(LONGEST, 2 * wait)
                if self._due.is_set():
                    self._due.clear()  # the process exits: once more, without a pause
                    wait = AGAIN / 10

    def send(self) -> bool:
        """Send all that waits; False: it waits on."""
        with self._news:
            reports, first = list(self._waiting), self._first
        try:
            done = self._post(json.dumps({"reports": reports}).encode())
        except (OSError, HTTPException, ValueError):
            return False
        if done:
            with self._news:
                for _ in range(first + len(reports) - self._first):  # others may be gone by now
                    self._waiting.popleft()
                    self._first += 1
                if not self._waiting:
                    self._empty.set()
        return done

    def _post(self, body: bytes) -> bool:
        token = Path(self._token).read_text(encoding="ascii").strip()  # it is renewed now and then
        trusted = ssl.create_default_context(cafile=self._certificate)
        to = self._to
        connection = HTTPSConnection(to.hostname or "", to.port, timeout=ANSWER, context=trusted)
        try:
            headers = {
                "Authorization": f"Bearer {token}",
                "Content-Type": "application/json",
                "Connection": "close",
            }
            connection.request("POST", to.path, body, headers)
            answer = connection.getresponse()
            data = answer.read(2**16)
        finally:
            connection.close()
        if answer.status == 200:
            with suppress(ValueError, AttributeError):
                self.checkpoint = bool(json.loads(data).get("checkpoint"))
        return answer.status in (200, 400)  # what is invalid stays so
