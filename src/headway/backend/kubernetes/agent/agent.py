"""The agent of one node. It has no rights in the cluster: the operator tells it what to read.

Each cycle sends what was read since the last acknowledged one. What is not acknowledged is sent
again, and nothing more is read while much of it waits; the logs themselves are the buffer.
"""

import json
import logging
import re
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from http.client import HTTPException, HTTPSConnection
from math import isfinite
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from headway.backend.kubernetes.agent import pod_cgroups
from headway.backend.kubernetes.agent.cri_log import CriLog, Line, nanoseconds
from headway.backend.kubernetes.agent.pod_cgroups import PodCgroup
from headway.backend.usage import UsageSample
from headway.core.model.units import Seconds
from headway.metrics.log_parser import LogParser, ParsedMetric
from headway.spec.pod_fields import TRAINING

EVERY: Seconds = 2.0
IDLE: Seconds = 30.0
"""Time between two requests without pods, if the kubelet creates no folder for a pod."""
DUTY = 0.2
"""Maximum fraction of a core that is used, regardless of how much the pods print."""
MOST_BYTES = 2 * 2**20
"""Bytes that are read of the log of a pod in one cycle."""
MOST_WAITING = 1000
"""Unsent entries of a pod from which on its log is not read."""
MOST_SENT = 5000
"""Maximum number of entries of a request."""
LOOKS = 30
"""Number of attempts to find a cgroup."""
ANSWER: Seconds = 10.0
UID = re.compile(r"[0-9A-Za-z-]{1,64}")
"""Uid of a pod, or name of a container. Neither leads out of the folder of the logs."""
log = logging.getLogger("headway")

Entry = tuple[float | None, float | None, float | None, int, float | None]
"""Step, mean value, highest value, number of lines, number of steps in total."""


@dataclass(slots=True)
class WatchedPod:
    container: str
    log: CriLog | None
    """None: it does not exist yet."""
    parser: LogParser
    after: int
    """Time up to which lines were acknowledged to an earlier agent."""
    entries: list[Entry] = field(default_factory=list)
    position: int = 0
    trouble: str = ""
    cgroup: PodCgroup | None = None
    looks: int = 0
    """Number of attempts in which its cgroup was not found."""
    behind: bool = False
    """Whether there is more to read, or to send."""
    silent: bool = False
    """Whether it reports by itself, so that its log is not read."""

    def read(self) -> None:
        self.behind = False
        if self.log is None or self.silent or len(self.entries) >= MOST_WAITING:
            return
        text, count, last = list[bytes](), 0, b""
        for line in self.log.read(MOST_BYTES):
            count += len(line.text)
            if self.after:
                self._skip(line)
                if self.after:
                    continue
            text.append(line.text)
            last = line.time
        if text:
            self.position = nanoseconds(last)
            self._parsed(self.parser.feed(b"".join(text)))
        self.behind = count >= MOST_BYTES // 2

    def _skip(self, line: Line) -> None:
        """Parse a line that was reported before, because the parser remembers epochs."""
        if nanoseconds(line.time) <= self.after:
            self.parser.feed(line.text)
        else:
            self.after = 0

    def _parsed(self, metrics: list[ParsedMetric]) -> None:
        for metric in metrics:
            value = metric.value
            if value is not None and not isfinite(value):
                self.trouble, value = f"reported the value {value}", None
            self.entries.append((metric.step, value, value, int(value is not None), metric.total))
        while len(self.entries) > MOST_WAITING:
            self.entries = halved(self.entries)

    def measure(self, root: str, uid: str) -> UsageSample | None:
        """Return the usage; None: unknown. The cgroup of an ended pod does not exist."""
        if self.cgroup is None and self.looks < LOOKS:
            self.cgroup = pod_cgroups.find(root, uid)
            self.looks += self.cgroup is None
        usage = self.cgroup.read() if self.cgroup is not None else None
        if usage is None and self.cgroup is not None:
            self.cgroup.close()
            self.cgroup, self.looks = None, LOOKS
        return usage

    def silence(self) -> None:
        self.entries.clear()
        self.silent = True

    def close(self) -> None:
        if self.log is not None:
            self.log.close()
        if self.cgroup is not None:
            self.cgroup.close()


def halved(entries: list[Entry]) -> list[Entry]:
    """Join pairs of entries: the mean of their values, and the last step."""
    pairs = zip(entries[::2], entries[1::2], strict=False)
    return [_joined(a, b) for a, b in pairs] + (entries[-1:] if len(entries) % 2 else [])


def _joined(a: Entry, b: Entry) -> Entry:
    count = a[3] + b[3]
    values = [(e[1], e[3]) for e in (a, b) if e[1] is not None]
    highs = [e[2] for e in (a, b) if e[2] is not None]
    return (
        a[0] if b[0] is None else b[0],
        sum(mean * n for mean, n in values) / count if count else None,
        max(highs, default=None),
        count,
        a[4] if b[4] is None else b[4],
    )


@dataclass(slots=True)
class Agent:
    send: Callable[[dict[str, Any]], dict[str, Any]]
    """Sends a body and returns the answer; an OSError if it is not acknowledged."""
    logs: Path
    cgroups: str
    pods: dict[str, WatchedPod] = field(default_factory=dict)
    _logged: str = ""
    _idle: bool = False
    """The last answer listed no pods."""

    def run(self, stop: Event) -> None:
        while not stop.is_set():
            began, changed = monotonic(), self._changed()
            self.cycle()
            spent = monotonic() - began
            least = spent * (1 / DUTY - 1)
            busy = any(pod.behind for pod in self.pods.values())
            stop.wait(least if busy else max(least, EVERY - spent))
            while self._idle and self._changed() == changed and monotonic() - began < IDLE:
                if stop.wait(EVERY):
                    break
        self.close()

    def _changed(self) -> int:
        """Return when the kubelet last created or removed the folder of a pod."""
        with suppress(OSError):
            return self.logs.stat().st_mtime_ns
        return 0

    def cycle(self) -> None:
        for uid, pod in self.pods.items():
            if pod.log is None:
                pod.log = self._log(uid, pod.container)
            pod.read()
        body, counts = self._body()
        self._idle = False
        try:
            wanted = self.send({"pods": body}).get("pods") or {}
        except (OSError, HTTPException, ValueError, AttributeError) as error:
            if str(error) != self._logged:
                self._logged = str(error)
                log.warning("the operator does not acknowledge reports: %s", error)
            return
        self._logged, self._idle = "", not wanted
        for uid, count in counts.items():
            pod = self.pods[uid]
            del pod.entries[:count]
            pod.behind = pod.behind or bool(pod.entries)
            pod.trouble = ""
        self._watch(wanted)

    def close(self) -> None:
        for pod in self.pods.values():
            pod.close()

    def _body(self) -> tuple[dict[str, Any], dict[str, int]]:
        body, counts, room = dict[str, Any](), dict[str, int](), MOST_SENT
        for uid, pod in self.pods.items():
            count = counts[uid] = min(room, len(pod.entries))
            room -= count
            said: dict[str, Any] = {"log": pod.entries[:count]}
            if count == len(pod.entries) and pod.position:
                said["position"] = str(pod.position)
            said |= {"line": " ".join(pod.parser.example.split())[:60], "trouble": pod.trouble}
            usage, at = pod.measure(self.cgroups, uid), monotonic()
            body[uid] = said | ({"usage": asdict(usage), "at": at} if usage else {})
        return body, counts

    def _watch(self, wanted: dict[str, Any]) -> None:
        for uid in self.pods.keys() - wanted.keys():
            self.pods.pop(uid).close()
        for uid, about in wanted.items():
            if uid not in self.pods and UID.fullmatch(uid):
                self.pods[uid] = self._watched(about)
            if uid in self.pods and about.get("sdk"):
                self.pods[uid].silence()

    @staticmethod
    def _watched(about: dict[str, Any]) -> WatchedPod:
        after, trouble = int(about.get("position") or 0), ""
        metric = str(about.get("metric") or "loss")
        try:
            parser = LogParser(metric, about.get("pattern") or None)
        except ValueError as error:
            parser, trouble = LogParser(metric), f"reports.pattern: {error}"
        container = str(about.get("container") or TRAINING)
        return WatchedPod(container, None, parser, after, trouble=trouble, behind=True)

    def _log(self, uid: str, container: str) -> CriLog | None:
        """Return the log of a container, in the folder NAMESPACE_NAME_UID of its pod."""
        with suppress(OSError):
            there = next((p for p in self.logs.iterdir() if p.name.endswith(f"_{uid}")), None)
            if there is not None and UID.fullmatch(container) and (there / container).is_dir():
                return CriLog(there / container)
        return None


class HttpsClient:
    """One connection, which is opened again when it breaks, and closed while there are no pods."""

    def __init__(self, url: str, token: Path, certificate: Path) -> None:
        self._to, self._token, self._certificate = urlsplit(url), token, certificate
        self._connection: HTTPSConnection | None = None

    def __call__(self, body: dict[str, Any]) -> dict[str, Any]:
        try:
            answer = self._post(json.dumps(body).encode())
        except BaseException:
            self.close()
            raise
        if not answer.get("pods"):
            self.close()
        return answer

    def _post(self, body: bytes) -> dict[str, Any]:
        if self._connection is None:
            trusted = ssl.create_default_context(cafile=self._certificate)
            host, port = self._to.hostname or "", self._to.port
            self._connection = HTTPSConnection(host, port, timeout=ANSWER, context=trusted)
        token = self._token.read_text(encoding="ascii").strip()  # the kubelet renews it
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._connection.request("POST", f"{self._to.path}/v1/node", body, headers)
        answer = self._connection.getresponse()
        data = answer.read()
        if answer.status != 200:
            raise OSError(f"status {answer.status}: {data[:200].decode(errors='replace')}")
        found: dict[str, Any] = json.loads(data)
        return found

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
