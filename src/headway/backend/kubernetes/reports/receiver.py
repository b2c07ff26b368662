"""Receives the reports of pods and node agents, and handles them in the loop's thread.

A pod reports only for itself, and an agent only for the pods of its node: both are identified by
their tokens. The answer to a pod contains whether a checkpoint is requested. The answer to an agent
lists the pods of its node whose logs it must read.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoAnswer
from datetime import datetime
from functools import partial
from http import HTTPStatus
from time import time
from typing import Any

from headway.backend.kubernetes.client.api import Plain
from headway.backend.kubernetes.client.cache import ClusterCache, owner_uid
from headway.backend.kubernetes.client.informer import Key
from headway.backend.kubernetes.placement.node_info import OVER, node_of
from headway.backend.kubernetes.platform import pod_reports
from headway.backend.kubernetes.platform.pod_cpu import container_of
from headway.backend.kubernetes.reports.pod_metrics import PodMetrics
from headway.backend.kubernetes.reports.server import Refusal, Route
from headway.backend.kubernetes.reports.token_review import Client
from headway.backend.usage import UsageSample
from headway.backend.worker import EventQueue
from headway.controller.events import Event
from headway.core.model.units import Seconds
from headway.metrics.http_reports import KUBEFLOW, MALFORMED, SDK, from_kubeflow, from_sdk

LAST_WORDS: Seconds = 600.0
"""Time after the end of a pod until which its log is read."""
ANSWER: Seconds = 5.0
"""Time within which the loop must handle a report; otherwise the client must retry."""
AGENT = "headway-agent"
"""Service account of the node agents."""


class ReportReceiver:
    def __init__(
        self, cluster: ClusterCache, queue: EventQueue, clock: Callable[[], Seconds]
    ) -> None:
        self._cluster, self._queue, self._clock = cluster, queue, clock
        self.agents = ""
        """Namespace of the node agents; "": there are none."""
        self._pods: dict[str, Plain] = {}
        """Pods of jobs by uid."""
        self._on_node: dict[str, set[str]] = {}
        """Uids of these pods by node."""
        self._metrics: dict[str, PodMetrics] = {}
        self.checkpoints: set[str] = set()
        """Uids of pods from which a checkpoint is requested."""
        self.counts: Counter[str] = Counter()
        """Reports by source."""
        self.reads: Callable[[Plain], bool] = lambda pod: bool(owner_uid(pod))
        """Whether reports of a pod are accepted."""
        self.on_report: Callable[[Plain, PodMetrics], None] = lambda pod, metrics: None
        """Called when a pod has reported."""

    # -- in the loop's thread ----------------------------------------------------------------------

    def pod_changed(self, before: Plain | None, new: Plain | None) -> None:
        pod = new or before or {}
        uid, node = str(pod["metadata"].get("uid", "")), node_of(pod)
        if new is None or not self.reads(new):
            self._pods.pop(uid, None)
            self._metrics.pop(uid, None)
            self.checkpoints.discard(uid)
            self._on_node.get(node, set()).discard(uid)
            return
        self._pods[uid] = new
        if node:
            self._on_node.setdefault(node, set()).add(uid)

    def of(self, key: Key) -> PodMetrics | None:
        """Return what the pod of this name has reported; None: nothing."""
        pod = self._cluster.pods.get(key)
        return None if pod is None else self._metrics.get(str(pod["metadata"].get("uid", "")))

    def checkpoint(self, uid: str) -> str:
        """Return the newest checkpoint that a pod has reported; "": none."""
        found = self._metrics.get(uid)
        return found.checkpoint if found is not None else ""

    def metrics(self, uid: str) -> PodMetrics:
        found = self._metrics.get(uid)
        if found is None:
            metric = about(self._pods[uid]).get("metric") or "loss"
            found = self._metrics[uid] = PodMetrics(metric)
        return found

    def from_pod(self, uid: str, reports: list[Any], source: str) -> Plain:
        if uid not in self._pods:
            raise Refusal(HTTPStatus.NOT_FOUND, "this pod is not known as one of a training job")
        metrics = self.metrics(uid)
        before = metrics.checkpoint
        metrics.hear(reports, self._clock())
        if metrics.checkpoint != before:
            self.checkpoints.discard(uid)  # it has done so
        self.counts[source] += len(reports)
        self.on_report(self._pods[uid], metrics)
        return {"checkpoint": uid in self.checkpoints}

    def kubeflow(self, uid: str, body: Any) -> Plain:
        if uid not in self._pods:
            raise Refusal(HTTPStatus.NOT_FOUND, "this pod is not known as one of a training job")
        return self.from_pod(uid, [from_kubeflow(body, self.metrics(uid).metric)], "kubeflow")

    def from_node(self, node: str, pods: Mapping[str, Any]) -> Plain:
        now, here = self._clock(), self._on_node.get(node, set())
        for uid in here & set(pods):
            said, metrics = pods[uid], self.metrics(uid)
            before = metrics.reports
            if "usage" in said:
                metrics.measured(UsageSample(**said["usage"]), float(said["at"]), now)
            metrics.parsed(said.get("log") or [], now)
            metrics.noted(str(said.get("trouble", "")))
            metrics.line = metrics.line or str(said.get("line", ""))
            metrics.position = str(said.get("position") or metrics.position)
            self.counts["log"] += metrics.reports - before
            self.on_report(self._pods[uid], metrics)
        known = {uid: self._pods[uid] for uid in sorted(here) if _is_read(self._pods[uid])}
        return {"pods": {uid: self._wanted(uid, pod) for uid, pod in known.items()}}

    def _wanted(self, uid: str, pod: Plain) -> Plain:
        metrics = self._metrics.get(uid)
        return {
            **about(pod),
            "position": metrics.position if metrics else "",
            "sdk": bool(metrics and metrics.sdk),
        }

    # -- in the threads of the server --------------------------------------------------------------

    def routes(self) -> dict[str, Route]:
        return {SDK: self._sdk, "/v1/node": self._node, KUBEFLOW: self._kubeflow}

    def _sdk(self, client: Client, body: Any) -> Plain:
        uid = _pod(client)
        return self._in_loop(lambda: self.from_pod(uid, from_sdk(body), "sdk"))

    def _kubeflow(self, client: Client, body: Any) -> Plain:
        return self._in_loop(partial(self.kubeflow, _pod(client), body))

    def _node(self, client: Client, body: Any) -> Plain:
        if not self.agents or client.account != f"{self.agents}:{AGENT}" or not client.node:
            raise Refusal(HTTPStatus.FORBIDDEN, "only for the node agents of Headway")
        pods = body.get("pods") if isinstance(body, dict) else None
        if not isinstance(pods, dict):
            raise Refusal(HTTPStatus.BAD_REQUEST, "pods is required")
        return self._in_loop(partial(self.from_node, client.node, pods))

    def _in_loop(self, call: Callable[[], Plain]) -> Plain:
        """Make a call in the loop's thread, and return when it is done."""
        done: Future[Plain] = Future()

        def run() -> Iterable[Event]:
            if done.set_running_or_notify_cancel():
                try:
                    done.set_result(call())
                except Exception as error:  # noqa: BLE001 - concerns the client, not the loop
                    done.set_exception(error)
            return ()

        self._queue.put(run)
        try:
            return done.result(ANSWER)
        except NoAnswer:
            if done.cancel():
                raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "busy: try again") from None
            return done.result()
        except MALFORMED as error:
            raise Refusal(HTTPStatus.BAD_REQUEST, f"invalid report: {error!r}"[:200]) from None


def _pod(client: Client) -> str:
    if not client.pod:
        raise Refusal(HTTPStatus.FORBIDDEN, "the token is not bound to a pod")
    return client.pod


def about(pod: Plain) -> dict[str, str]:
    """Return the metric and the pattern to look for in the log of a pod, and the container."""
    notes = pod["metadata"].get("annotations") or {}
    found = {"metric": notes.get(pod_reports.METRIC), "pattern": notes.get(pod_reports.PATTERN)}
    found["container"] = container_of(pod)
    return {name: str(text) for name, text in found.items() if text}


def _is_read(pod: Plain) -> bool:
    """Whether the agent must read the log of a pod: it has not ended long ago."""
    if pod["status"].get("phase") not in OVER:
        return True
    states = [c.get("state") or {} for c in pod["status"].get("containerStatuses") or ()]
    ends = [s["terminated"].get("finishedAt") for s in states if s.get("terminated")]
    try:
        last = max(datetime.fromisoformat(end).timestamp() for end in ends if end)
    except ValueError:
        return False
    return time() - last < LAST_WORDS
