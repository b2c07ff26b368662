"""Forwards reports to `headway run`, which pods cannot reach.

The operator receives the reports of the pods of a run and writes them to an annotation of the pod.
The run watches its pods.
"""

import json
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

from headway.backend.kubernetes.client.api import Plain, pod_path
from headway.backend.kubernetes.client.cache import ClusterCache
from headway.backend.kubernetes.client.informer import key_of
from headway.backend.kubernetes.platform import pod_builder
from headway.backend.kubernetes.reports.pod_metrics import PodMetrics
from headway.backend.usage import UsageSample
from headway.core.model.units import Seconds
from headway.spec.manifest import GROUP

REPORTED = f"{GROUP}/reported"
"""Annotation of a pod: its last reports and its usage."""
EVERY: Seconds = 5.0
PER_POD: Seconds = 0.1


class Relay:
    def __init__(self, cluster: ClusterCache, clock: Callable[[], Seconds]) -> None:
        self._cluster, self._clock = cluster, clock
        self._changed: dict[str, tuple[Plain, PodMetrics]] = {}
        self._written: dict[str, Seconds] = {}

    def reported(self, pod: Plain, metrics: PodMetrics) -> None:
        """Forward a report of a pod of a run."""
        if not self._cluster.run and (pod["metadata"].get("labels") or {}).get(pod_builder.RUN):
            self._changed[pod["metadata"]["uid"]] = pod, metrics

    def flush(self) -> None:
        now, pause = self._clock(), max(EVERY, PER_POD * len(self._written))
        for uid, (pod, metrics) in list(self._changed.items()):
            if now >= self._written.get(uid, now - pause) + pause:
                del self._changed[uid]
                self._written[uid] = now
                body = {"metadata": {"uid": uid, "annotations": {REPORTED: write(metrics, now)}}}
                path = pod_path(*key_of(pod))
                worker = self._cluster.worker_of(key_of(pod)[0])
                worker.do(partial(self._cluster.api.patch, path, body))

    def forget(self, uid: str) -> None:
        self._changed.pop(uid, None)
        self._written.pop(uid, None)


def write(metrics: PodMetrics, now: Seconds) -> str:
    heard, usage = metrics.report(), metrics.usage(None)
    value = heard.mean if heard.count else None
    said: dict[str, Any] = {
        "log": [[metrics.step, value, heard.high, heard.count, metrics.total]],
        "line": metrics.line,
        "trouble": heard.trouble,
        "at": now,
    }
    return json.dumps(said | ({"usage": asdict(usage)} if usage else {}))


def read(before: Plain | None, new: Plain, metrics: PodMetrics, now: Seconds) -> None:
    """Read a changed annotation. An invalid one is ignored."""
    text = _note(new)
    if not text or text == _note(before):
        return
    try:
        said = json.loads(text)
        if "usage" in said:
            metrics.measured(UsageSample(**said["usage"]), float(said["at"]), now)
        metrics.parsed(said["log"], now)
        metrics.noted(str(said["trouble"]))
        metrics.line = str(said["line"])
    except (ValueError, TypeError, KeyError):
        return


def _note(pod: Plain | None) -> str:
    notes = (pod or {"metadata": {}})["metadata"].get("annotations") or {}
    return str(notes.get(REPORTED, ""))
