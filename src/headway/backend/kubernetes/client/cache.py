"""The cluster as the informers last saw it, and the worker that makes calls to change it."""

from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic

from headway.backend.kubernetes.client.api import Api, Plain, jobs_path
from headway.backend.kubernetes.client.fatal_thread import exit_process
from headway.backend.kubernetes.client.informer import Changed, Key, Reflector, Store, key_of
from headway.backend.kubernetes.placement.node_info import holds, ready
from headway.backend.kubernetes.platform import pod_builder
from headway.backend.worker import EventQueue, Worker
from headway.controller.events import Event
from headway.core.model.units import JobId, Seconds
from headway.errors import BackendError, Declined, Denied, Unreachable

PATIENCE: Seconds = 30.0
"""For the first list of every kind."""


class ClusterCache:
    def __init__(self, api: Api, namespace: str, run: str, queue: EventQueue) -> None:
        """`namespace`: only its jobs. `run`: only the jobs of that run; "": jobs without a run."""
        self.api, self.run, self.namespace = api, run, namespace
        self._queue = queue
        self.worker = Worker("kubernetes", queue, crashed=exit_process)
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
        labels = {"jobs": f"{pod_builder.RUN}={run}" if run else f"!{pod_builder.RUN}"}
        self._stores = {
            name: Store(path, partial(self._news, name), labels.get(name, ""))
            for name, path in paths.items()
        }
        self.nodes, self.pods, self.jobs = (s.objects for s in self._stores.values())
        self._watchers = [Reflector(api, s, queue, self._heard) for s in self._stores.values()]

    def begin(self) -> None:
        """List everything once, and watch from then on."""
        for each in self._watchers:
            each.begin()
        end = monotonic() + PATIENCE
        while not all(s.complete for s in self._stores.values()):
            self._queue.wait(0.1)
            if isinstance(self.trouble, Denied) or (self.trouble and monotonic() > end):
                raise self.trouble
            if isinstance(self.trouble, Declined):
                raise BackendError(
                    "the cluster has no custom resource TrainingJob",
                    where=self.api.url,
                    hint="headway kubernetes manifests | kubectl apply -f -",
                )
            if monotonic() > end:
                raise Unreachable(f"timeout: no answer from {self.api.url} within {PATIENCE:g} s")

    def tell(self, down: Callable[[BackendError], None], **changed: Changed) -> None:
        """Call these from now on, by kind."""
        self._down, self._changed = down, changed

    def _heard(self, error: BackendError | None) -> Sequence[Event]:
        self.trouble = error
        if error is not None:
            self._down(error)
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

    def is_up(self, node: str) -> bool:
        found = self.nodes.get(("", node))
        return found is not None and ready(found)

    def owned(self, pod: Plain) -> bool:
        """By a TrainingJob of a namespace that is managed here."""
        return bool(owner_uid(pod)) and self.namespace in ("", pod["metadata"]["namespace"])

    def close(self) -> None:
        for each in self._watchers:
            each.close()
        self.worker.close()


def owner_uid(pod: Plain) -> str:
    """Of the TrainingJob that controls it; "": none does."""
    owners = pod["metadata"].get("ownerReferences") or ()
    ours = (o for o in owners if o.get("controller") and o.get("kind") == pod_builder.KIND["kind"])
    return next((str(o.get("uid", "")) for o in ours), "")
