"""The cluster as the informers last saw it, and the worker that makes calls to change it."""

from collections.abc import Callable, Sequence
from functools import partial
from http import HTTPStatus
from time import monotonic
from typing import Any

from headway.backend.kubernetes.client.api import Api, Plain, jobs_path
from headway.backend.kubernetes.client.fatal_thread import exit_process
from headway.backend.kubernetes.client.informer import Changed, Key, Reflector, Store, key_of
from headway.backend.kubernetes.client.slim import slim_foreign_pod, slim_object
from headway.backend.kubernetes.placement.node_info import OVER, holds, ready
from headway.backend.kubernetes.platform import pod_builder
from headway.backend.worker import EventQueue, Worker
from headway.controller.events import Event
from headway.core.model.units import JobId, Seconds
from headway.errors import BackendError, Declined, Denied, Unreachable
from headway.spec.manifest import GROUP

ADOPT = f"{GROUP}/adopt"
"""Label of a Job or a pod that is to be adopted: "true"."""
KINDS, OPTIONAL = ("nodes", "pods", "jobs", "classes"), ("classes", "adopting")
IDLE: Seconds = 60.0
"""Time without a call after which a worker ends its thread."""
PATIENCE: Seconds = 30.0
"""Timeout of each page of the first list of a kind."""


class ClusterCache:
    def __init__(self, api: Api, namespace: str, run: str, queue: EventQueue) -> None:
        """`namespace`: only jobs of this namespace. `run`: only jobs of this run; "": jobs without
        a run.
        """
        self.api, self.run, self.namespace = api, run, namespace
        self._queue = queue
        self.worker = Worker("kubernetes", queue, crashed=exit_process)
        """For calls that concern no namespace."""
        self._workers: dict[str, Worker] = {}
        self.on_node: dict[str, dict[Key, Plain]] = {}
        """Pods that hold room on a node."""
        self.of_job: dict[str, dict[Key, Plain]] = {}
        """Pods by the uid of the TrainingJob that controls them."""
        self.trouble: BackendError | None = None
        self._down: Callable[[BackendError], None] = lambda error: None
        self._changed: dict[str, Changed] = {}
        # An operator of one namespace has rights in it only; kube-scheduler knows all pods.
        within = f"/namespaces/{namespace}" if namespace and not run else ""
        pods = f"/api/v1{within}/pods"
        paths = {"nodes": "/api/v1/nodes", "pods": pods, "jobs": jobs_path(namespace)}
        paths["classes"] = "/apis/scheduling.k8s.io/v1/priorityclasses"
        if not run:
            paths["adopting"] = f"/apis/batch/v1{within}/jobs"
        labels = {"jobs": f"{pod_builder.RUN}={run}" if run else f"!{pod_builder.RUN}"}
        labels["adopting"] = f"{ADOPT}=true"
        kept: dict[str, Any] = {"pods": {"slim": _slim_pod, "is_over": _is_over}}
        self._stores = {
            name: Store(path, partial(self._news, name), labels.get(name, ""), **kept.get(name, {}))
            for name, path in paths.items()
        }
        stores = self._stores
        self.nodes, self.pods, self.jobs, self.classes = (stores[kind].objects for kind in KINDS)
        self.adopting = stores["adopting"].objects if not run else {}
        """Jobs whose pods are to be adopted."""
        handlers = {name: partial(self._on_optional_error, name) for name in OPTIONAL}
        self._watchers = [
            Reflector(api, s, queue, handlers.get(name, self._on_error))
            for name, s in stores.items()
        ]

    def begin(self) -> None:
        """List everything once, and watch from then on."""
        for each in self._watchers:
            each.begin()
        pages, end = self.api.pages, monotonic() + PATIENCE
        while not all(s.complete for s in self._stores.values()):
            self._queue.wait(0.1)
            if self.api.pages != pages:  # the list of a large cluster takes long
                pages, end = self.api.pages, monotonic() + PATIENCE
            if isinstance(self.trouble, Denied) or (self.trouble and monotonic() > end):
                raise self.trouble
            if _is_missing(self.trouble):
                raise BackendError(
                    "the cluster has no custom resource TrainingJob",
                    where=self.api.url,
                    hint="headway kubernetes manifests | kubectl apply -f -",
                )
            if monotonic() > end:
                raise Unreachable(f"timeout: no answer from {self.api.url} within {PATIENCE:g} s")

    def subscribe(self, down: Callable[[BackendError], None], **changed: Changed) -> None:
        """Call these from now on, by kind."""
        self._down, self._changed = down, changed

    def _on_error(self, error: BackendError | None) -> Sequence[Event]:
        self.trouble = error
        if error is not None:
            self._down(error)
        return ()

    def _on_optional_error(self, kind: str, error: BackendError | None) -> Sequence[Event]:
        """Ignore a kind that Headway may not read, or that the cluster does not have."""
        if isinstance(error, Denied) or _is_missing(error):
            self._stores[kind].complete = True
        return ()

    def _news(self, kind: str, before: Plain | None, new: Plain | None) -> Sequence[Event]:
        if kind == "pods":
            self._index(before, new)
        then = self._changed.get(kind)
        return () if then is None else list(then(before, new))

    def _index(self, before: Plain | None, new: Plain | None) -> None:
        for pod in filter(None, (before, new)):
            for index, name in ((self.on_node, holds(pod)), (self.of_job, owner_uid(pod))):
                if name and pod is new:
                    index.setdefault(name, {})[key_of(pod)] = pod
                elif name:
                    there = index.get(name, {})
                    there.pop(key_of(pod), None)
                    if not there:
                        index.pop(name, None)

    def job_id(self, namespace: str, name: str) -> JobId:
        return JobId(name if self.namespace else f"{namespace}/{name}")

    def node(self, name: str) -> Plain | None:
        return self.nodes.get(("", name))

    def is_up(self, node: str) -> bool:
        found = self.node(node)
        return found is not None and ready(found)

    def owned(self, pod: Plain) -> bool:
        """Whether a pod is owned by a TrainingJob of a managed namespace."""
        return bool(owner_uid(pod)) and self.namespace in ("", pod["metadata"]["namespace"])

    def owned_pod(self, key: Key) -> Plain | None:
        """Return the pod of this name if a TrainingJob controls it."""
        found = self.pods.get(key)
        return found if found is not None and owner_uid(found) else None

    def worker_of(self, namespace: str) -> Worker:
        """Return the worker that makes the calls about a namespace one after the other. A call that
        hangs, for example in an admission webhook, does not delay other namespaces.
        """
        if namespace not in self._workers:
            name = f"kubernetes {namespace}"
            self._workers[namespace] = Worker(name, self._queue, exit_process, idle=IDLE)
        return self._workers[namespace]

    def close(self) -> None:
        for each in self._watchers:
            each.close()
        for worker in (*self._workers.values(), self.worker):
            worker.close()


def _is_missing(error: BackendError | None) -> bool:
    """Whether the API server does not know this kind."""
    return isinstance(error, Declined) and error.status == HTTPStatus.NOT_FOUND


def _slim_pod(pod: Plain) -> None:
    slim_object(pod)
    if not owner_uid(pod):
        slim_foreign_pod(pod)


def _is_over(pod: Plain) -> bool:
    """Whether a pod has ended that no TrainingJob controls: it is not kept."""
    return not owner_uid(pod) and pod["status"].get("phase") in OVER


def owner_uid(pod: Plain) -> str:
    """Return the uid of the TrainingJob that controls a pod; "": none does."""
    owners = pod["metadata"].get("ownerReferences") or ()
    ours = (o for o in owners if o.get("controller") and o.get("kind") == pod_builder.KIND["kind"])
    return next((str(o.get("uid", "")) for o in ours), "")
