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
from itertools import accumulate, islice, takewhile
from pathlib import Path
from random import Random
from threading import Event, Lock, Thread
from urllib.parse import urlsplit

MOST = 1000
"""Reports that wait."""
MOST_BYTES = 256 * 2**10
"""Maximum size of the reports of a request. The server refuses a body of more than 1 MiB."""
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
        self._dice = Random()
        self.checkpoint = False
        """Whether the last answer requested a checkpoint."""
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        """Initialize, also in a forked process: the parent may hold the lock, and sends its own
        reports.
        """
        self._waiting: deque[bytes] = deque()
        self._first = 0
        """Number of the first report that waits."""
        self._most = MOST_BYTES
        self._lock, self._due, self._empty = Lock(), Event(), Event()
        self._started = False

    def put(self, report: dict[str, object]) -> None:
        data = json.dumps(report).encode()
        if len(data) > MOST_BYTES:
            data = json.dumps({"trouble": f"a report of {len(data)} bytes was not sent"}).encode()
        with self._lock:
            self._waiting.append(data)
            if len(self._waiting) > MOST:
                self._waiting.popleft()
                self._first += 1
            self._empty.clear()
        self.start()

    def start(self) -> None:
        """Begin to send, also without reports: the answer may request a checkpoint."""
        if self._started:
            return
        with self._lock, suppress(RuntimeError):  # no more threads: the next call tries again
            if not self._started:
                Thread(target=self._run, name="headway-reports", daemon=True).start()
                self._started = True

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
            if self.send():
                wait = AGAIN
                if not self._waiting and self._due.wait(PAUSE):
                    self._due.clear()
            else:
                self._due.wait(self._dice.uniform(wait / 2, wait))
                wait = min(LONGEST, 2 * wait)
                if self._due.is_set():
                    self._due.clear()  # the process exits: once more, without a pause
                    wait = AGAIN / 10

    def send(self) -> bool:
        """Send the oldest that wait, as many as fit in one request; False: they wait on."""
        with self._lock:
            first, reports = self._first, self._oldest()
        body = b'{"reports": [' + b", ".join(reports) + b"]}"
        try:
            status = self._post(body)
        except (OSError, HTTPException, ValueError):
            return False
        if status == 413 and len(reports) > 1:
            self._most = len(body) // 2
            return True
        # What is invalid, or too large by itself, stays so.
        done = status in (200, 400, 413)
        if done:
            self._most = MOST_BYTES
            with self._lock:
                for _ in range(first + len(reports) - self._first):  # others may be gone by now
                    self._waiting.popleft()
                    self._first += 1
                if not self._waiting:
                    self._empty.set()
        return done

    def _oldest(self) -> list[bytes]:
        """At least one."""
        sizes = accumulate(len(data) + 2 for data in self._waiting)
        count = sum(1 for _ in takewhile(lambda size: size <= self._most, sizes))
        return list(islice(self._waiting, max(1, count)))

    def _post(self, body: bytes) -> int:
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
        return answer.status
