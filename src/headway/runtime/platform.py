"""On what a run takes place: this machine, or Docker engines."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

from headway.backend.clock import Clock
from headway.backend.docker.backend import DockerBackend
from headway.backend.docker.engine import Engine
from headway.backend.docker.nodes import WORKLOADS, connect, spots
from headway.backend.jobs import LiveJob
from headway.backend.live import LiveBackend
from headway.backend.local import procfs
from headway.backend.local.backend import LocalBackend
from headway.backend.local.cuts import cut, fit_nodes
from headway.backend.local.enforcement import choose
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

    def backend(
        self, folder: RunFolder, jobs: Sequence[LiveJob], clock: Clock
    ) -> tuple[LiveBackend[Any], float]:
        cpus = sorted(os.sched_getaffinity(0))
        work = self.workload
        asked = work.to_nodes() if work and "nodes" in work.model_fields_set else None
        nodes, factor = fit_nodes(asked, float(len(cpus)), procfs.machine_memory())
        chosen = choose(folder.id, self.enforcement)
        return LocalBackend(folder.path, cut(nodes, cpus), jobs, chosen, clock), factor


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

    def backend(
        self, folder: RunFolder, jobs: Sequence[LiveJob], clock: Clock
    ) -> tuple[LiveBackend[Any], float]:
        return DockerBackend(folder.path, self.engines, jobs, clock, self.label), self.factor
