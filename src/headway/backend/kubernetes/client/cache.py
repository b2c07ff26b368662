"""The cluster as the informers last saw it, and the worker that makes calls to change it."""

from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic

from headway.backend.kubernetes.client.api import Api, Plain, jobs_path
from headway.backend.kubernetes.client.fatal_thread import exit_process
from headway.backend.kubernetes.client.informer import Changed, Key, Reflector, Store, key_of
from headway.backend.kubernetes.placement.filters import Around, crowded
from headway.backend.kubernetes.placement.node_info import ready, takes_room
from headway.backend.kubernetes.placement.quantities import allocatable, asked
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
        self._assumed: dict[Key, tuple[str, Plain]] = {}
        """Pods that are being bound, until they are observed on their node."""
        self.trouble: BackendError | None = None
        self._down: Callable[[BackendError], None] = lambda error: None
        self._changed: dict[str, Changed] = {}
        within = f"/namespaces/{namespace}" if namespace else ""
        paths = {
            "nodes": "/api/v1/nodes",
            "pods": "/api/v1/pods",
            "jobs": jobs_path(namespace),
            "claims": f"/api/v1{within}/persistentvolumeclaims",
            "volumes": "/api/v1/persistentvolumes",
            "classes": "/apis/storage.k8s.io/v1/storageclasses",
        }
        labels = {"jobs": f"{pod_builder.RUN}={run}" if run else f"!{pod_builder.RUN}"}
        self._stores = {
            name: Store(path, partial(self._news, name), labels.get(name, ""))
            for name, path in paths.items()
        }
        self.nodes, self.pods, self.jobs, *others = (s.objects for s in self._stores.values())
        self.around = Around(*others)
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
        if before is not None and takes_room(before):
            self.on_node.get(before["spec"]["nodeName"], {}).pop(key_of(before), None)
        if new is not None and takes_room(new):
            self.on_node.setdefault(new["spec"]["nodeName"], {})[key_of(new)] = new
            self._assumed.pop(key_of(new), None)

    def others(self, node: str) -> list[Plain]:
        """The pods that use capacity there, or are about to."""
        coming = [pod for to, pod in self._assumed.values() if to == node]
        return [*self.on_node.get(node, {}).values(), *coming]

    def assume(self, pod: Plain, node: str) -> None:
        """Count it on this node while it is being bound."""
        if not takes_room(pod):
            self._assumed[key_of(pod)] = node, pod

    def assume_not(self, key: Key) -> None:
        self._assumed.pop(key, None)

    def job_id(self, namespace: str, name: str) -> JobId:
        return JobId(name if self.namespace else f"{namespace}/{name}")

    def is_up(self, node: str) -> bool:
        found = self.nodes.get(("", node))
        return found is not None and ready(found)

    def is_crowded(self, node: str) -> bool:
        """It has reached its number of pods, or lacks one."""
        found = self.nodes.get(("", node))
        return found is not None and crowded(found, len(self.others(node)) + 1)

    def short_of(self, node: str, wanted: list[Plain]) -> str:
        """Which resource the node has too little of for these pods; "": none."""
        there = allocatable(self.nodes["", node])
        amounts = [asked(pod) for pod in (*self.others(node), *wanted)]
        for name in ("cpu", "memory", "nvidia.com/gpu"):
            if sum(a.get(name, 0.0) for a in amounts) > there.get(name, 0.0) * (1 + 1e-9):
                return f"too little {name} is left on {node}"
        if crowded(self.nodes["", node], len(amounts) - 1):
            return f"{node} takes no more pods"
        return ""

    def close(self) -> None:
        for each in self._watchers:
            each.close()
        self.worker.close()
