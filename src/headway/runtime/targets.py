"""Where a run takes place: this machine, Docker engines or a Kubernetes cluster."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

from headway.backend.clock import Clock
from headway.backend.cpu_partition import cut, fit_nodes
from headway.backend.docker.discovery import WORKLOADS, connect, engine_targets
from headway.backend.docker.engine import Engine
from headway.backend.docker.platform import DockerPlatform
from headway.backend.live import LiveBackend
from headway.backend.local.enforcement import procfs
from headway.backend.local.enforcement.select import choose
from headway.backend.local.platform import LocalPlatform
from headway.core.model.node import Node
from headway.errors import BackendError
from headway.runtime.run_directory import RunDirectory
from headway.spec.runnable import RunnableJob
from headway.spec.workload import Workload

if TYPE_CHECKING:
    from headway.backend.kubernetes.client.api import Api


@dataclass(frozen=True, slots=True)
class Docker:
    """Options of a user."""

    engines: tuple[str, ...] = ()
    """NAME=URL; none: the default engine."""
    image: str = WORKLOADS
    """Default image of tasks."""


class Platform(Protocol):
    @property
    def about(self) -> dict[str, Any]:
        """Fields of `run.json` that are needed to resume the run."""
        ...

    @property
    def nodes(self) -> Sequence[Node] | None:
        """All nodes; None: nodes may join."""
        ...

    def backend(
        self, folder: RunDirectory, jobs: Sequence[RunnableJob], clock: Clock
    ) -> tuple[LiveBackend, float]:
        """Also the factor by which the nodes' CPU was scaled down."""
        ...


@dataclass(frozen=True, slots=True)
class Machine:
    workload: Workload | None
    enforcement: str = ""

    @property
    def about(self) -> dict[str, Any]:
        return {}

    @property
    def nodes(self) -> Sequence[Node]:
        return self._fitted()[0]

    def _fitted(self) -> tuple[tuple[Node, ...], float]:
        """The nodes of the workload, else the machine; and the factor that scales their CPU."""
        work = self.workload
        asked = work.to_nodes() if work and "nodes" in work.model_fields_set else None
        cores = float(len(os.sched_getaffinity(0)))
        return fit_nodes(asked, cores, procfs.machine_memory())

    def backend(
        self, folder: RunDirectory, jobs: Sequence[RunnableJob], clock: Clock
    ) -> tuple[LiveBackend, float]:
        nodes, factor = self._fitted()
        parts = cut(nodes, sorted(os.sched_getaffinity(0)))
        chosen, shared = choose(folder.id, self.enforcement), {job.id: job for job in jobs}
        platform = LocalPlatform(folder.path, parts, shared, chosen, clock)
        return LiveBackend(platform, folder.path, shared, clock), factor


@dataclass(frozen=True, slots=True)
class Engines:
    docker: Docker
    engines: list[Engine]
    factor: float = 1.0
    label: str = ""
    """Containers with this label that start later are adopted too."""

    @classmethod
    def of(cls, docker: Docker, workload: Workload | None, label: str = "") -> Self:
        """Connect to the engines, or raise an error that says why that fails."""
        found = engine_targets(docker.engines, workload)
        return cls(docker, *connect(found), label)

    @property
    def about(self) -> dict[str, Any]:
        named = [f"{e.name}={e.client.url}" for e in self.engines]
        return {"docker": {"engines": named, "image": self.docker.image}}

    @property
    def nodes(self) -> Sequence[Node]:
        return [e.node() for e in self.engines]

    def backend(
        self, folder: RunDirectory, jobs: Sequence[RunnableJob], clock: Clock
    ) -> tuple[LiveBackend, float]:
        shared = {job.id: job for job in jobs}
        platform = DockerPlatform(folder.path, self.engines, shared, clock, self.label)
        return LiveBackend(platform, folder.path, shared, clock), self.factor


def api(kubeconfig: str = "") -> "Api":
    """The client is an extra, and takes a fifth of a second to import."""
    try:
        from headway.backend.kubernetes.client.api import connect  # noqa: PLC0415 - see above
    except ImportError as error:
        raise BackendError(
            f"the Kubernetes client is not installed ({error.name})",
            hint="pip install 'headway[kubernetes]'",
        ) from None
    return connect(kubeconfig or None)


@dataclass(frozen=True, slots=True)
class OnCluster:
    """A run's jobs as `TrainingJob`s of a cluster; this process places them."""

    image: str = ""
    """Default image of tasks."""
    namespace: str = ""
    """"": that of the kubeconfig."""

    @property
    def about(self) -> dict[str, Any]:
        return {"kubernetes": {"image": self.image, "namespace": self.namespace}}

    @property
    def nodes(self) -> None:
        """Clusters grow: a job that does not fit is pending, and its status says why."""
        return None

    def backend(
        self, folder: RunDirectory, jobs: Sequence[RunnableJob], clock: Clock
    ) -> tuple[LiveBackend, float]:
        there = api()  # raises an error that says what to install
        from headway.backend.kubernetes.platform.platform import CONFIG, KubernetesPlatform  # noqa: PLC0415 - an extra

        space = self.namespace or there.namespace
        shared = {job.id: job for job in jobs}
        platform = KubernetesPlatform(there, shared, clock, namespace=space, run=folder.id)
        return LiveBackend(platform, folder.path, shared, clock, config=CONFIG), 1.0
