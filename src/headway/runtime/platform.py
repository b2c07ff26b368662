"""On what a run takes place: this machine, or Docker engines."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

from headway.backend.clock import Clock
from headway.backend.docker.backend import DockerBackend, node_of
from headway.backend.docker.engine import Engine
from headway.backend.docker.nodes import WORKLOADS, connect, spots
from headway.backend.jobs import LiveJob
from headway.backend.live import LiveBackend
from headway.backend.local import procfs
from headway.backend.local.backend import LocalBackend
from headway.backend.local.cuts import cut, fit_nodes
from headway.backend.local.enforcement import choose
from headway.core.node import Node
from headway.runtime.folder import RunFolder
from headway.spec.workload import Workload


@dataclass(frozen=True, slots=True)
class Docker:
    """As a user asks for it."""

    engines: tuple[str, ...] = ()
    """NAME=URL; none: the usual one."""
    image: str = WORKLOADS
    """Of tasks that name none."""


class Platform(Protocol):
    @property
    def about(self) -> dict[str, Any]:
        """What `run.json` must say so that the run can be resumed."""
        ...

    @property
    def nodes(self) -> Sequence[Node] | None:
        """All that there will ever be; None: there may be more."""
        ...

    def backend(
        self, folder: RunFolder, jobs: Sequence[LiveJob], clock: Clock
    ) -> tuple[LiveBackend[Any], float]:
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
        """What the workload asks for, else the machine; and by what all CPU is scaled down."""
        work = self.workload
        asked = work.to_nodes() if work and "nodes" in work.model_fields_set else None
        cores = float(len(os.sched_getaffinity(0)))
        return fit_nodes(asked, cores, procfs.machine_memory())

    def backend(
        self, folder: RunFolder, jobs: Sequence[LiveJob], clock: Clock
    ) -> tuple[LiveBackend[Any], float]:
        nodes, factor = self._fitted()
        parts = cut(nodes, sorted(os.sched_getaffinity(0)))
        chosen = choose(folder.id, self.enforcement)
        return LocalBackend(folder.path, parts, jobs, chosen, clock), factor


@dataclass(frozen=True, slots=True)
class Engines:
    docker: Docker
    engines: list[Engine]
    factor: float = 1.0
    label: str = ""
    """Containers that come to carry it are adopted too."""

    @classmethod
    def of(cls, docker: Docker, workload: Workload | None, label: str = "") -> Self:
        """Find the engines, or say why they cannot be had."""
        found = spots(docker.engines, workload)
        return cls(docker, *connect(found), label)

    @property
    def about(self) -> dict[str, Any]:
        named = [f"{e.name}={e.client.url}" for e in self.engines]
        return {"docker": {"engines": named, "image": self.docker.image}}

    @property
    def nodes(self) -> Sequence[Node]:
        return [node_of(e) for e in self.engines]

    def backend(
        self, folder: RunFolder, jobs: Sequence[LiveJob], clock: Clock
    ) -> tuple[LiveBackend[Any], float]:
        return DockerBackend(folder.path, self.engines, jobs, clock, self.label), self.factor
