"""Targets of a run: this machine, Docker engines or a Kubernetes cluster.

A target has `nodes` (None: nodes may join later), the `factor` by which their CPU was scaled down,
and `about`: the fields of `run.json` that are needed to resume the run.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

from headway.backend import procfs
from headway.backend.claims import Claims
from headway.backend.clock import Clock
from headway.backend.cpu_partition import cut, fit_nodes
from headway.backend.docker.discovery import WORKLOADS, connect, engine_targets
from headway.backend.docker.engine import Engine
from headway.backend.docker.platform import DockerPlatform
from headway.backend.foreign_load import ForeignLoad
from headway.backend.live import LiveBackend
from headway.backend.local.enforcement.select import choose
from headway.backend.local.platform import LocalPlatform
from headway.backend.local.process_control import ProcessControl
from headway.backend.local.relays import Relays
from headway.core.model.node import Node
from headway.core.model.units import JobId
from headway.errors import BackendError, ConfigError, Denied
from headway.runtime.run_directory import RunDirectory
from headway.spec.link import LinkSpec
from headway.spec.runnable import RunnableJob
from headway.spec.workload import Workload

if TYPE_CHECKING:
    from headway.backend.kubernetes.client.api import Api


Jobs = dict[JobId, RunnableJob]


@dataclass(frozen=True, slots=True)
class Docker:
    """Options for Docker."""

    engines: tuple[str, ...] = ()
    """NAME=URL; none: the default engine."""
    image: str = WORKLOADS
    """Default image of tasks."""


@dataclass(frozen=True, slots=True)
class Machine:
    nodes: tuple[Node, ...]
    factor: float
    enforcement: str = ""
    control: ProcessControl | None = None
    """Starts processes; None: this process does."""
    link: LinkSpec | None = None
    """Link between its nodes; None: replicas connect to each other directly."""
    about: ClassVar[dict[str, Any]] = {}

    @classmethod
    def of(cls, workload: Workload | None, enforcement: str = "") -> Self:
        """Return the target with the nodes of the workload, else the machine as one node."""
        given = workload.to_nodes() if workload and "nodes" in workload.model_fields_set else None
        cores = float(len(os.sched_getaffinity(0)))
        nodes, factor = fit_nodes(given, cores, procfs.machine_memory())
        return cls(nodes, factor, enforcement, link=workload.link if workload else None)

    def backend(self, folder: RunDirectory, jobs: Jobs, clock: Clock) -> LiveBackend:
        cpus = sorted(os.sched_getaffinity(0))
        chosen = choose(folder.id, self.enforcement, folder.about.get("cgroups", {}))
        if self.control is not None and self.control.needs_cgroups and chosen.name == "nice":
            raise Denied("shares of the jobs of several users need cgroups, which are not writable")
        if chosen.place != folder.about.get("cgroups", {}):
            folder.write(
                "run.json", json.dumps({**folder.about, "cgroups": chosen.place}, indent=2)
            )
        foreign = ForeignLoad({n.id: n.capacity.cpu for n in self.nodes}, cpus, chosen.used)
        claims = Claims()
        names = {cpu: f"cpu-{cpu}" for cpu in cpus}
        parts = cut(self.nodes, cpus, [c for c in cpus if not claims.take(names[c])])
        pinned = {cpu for part in parts for cpu in part.cpus or ()}
        claims.release(name for cpu, name in names.items() if cpu not in pinned)
        platform = LocalPlatform(folder.path, parts, jobs, chosen, clock, foreign, claims)
        platform.control = self.control or platform.control
        platform.relays = Relays(folder.path, self.link) if self.link else None
        return LiveBackend(platform, folder.path, jobs, clock)


@dataclass(frozen=True, slots=True)
class Engines:
    docker: Docker
    engines: list[Engine]
    factor: float = 1.0
    label: str = ""
    """Containers with this label are adopted when they start."""

    @classmethod
    def of(cls, docker: Docker, workload: Workload | None, label: str = "") -> Self:
        """Connect to the engines."""
        found = engine_targets(docker.engines, workload)
        return cls(docker, *connect(found), label)

    @property
    def about(self) -> dict[str, Any]:
        named = [f"{e.name}={e.client.url}" for e in self.engines]
        return {"docker": {"engines": named, "image": self.docker.image}}

    @property
    def nodes(self) -> Sequence[Node]:
        return [e.node() for e in self.engines]

    def backend(self, folder: RunDirectory, jobs: Jobs, clock: Clock) -> LiveBackend:
        platform = DockerPlatform(folder.path, self.engines, jobs, clock, self.label)
        here = [e for e in self.engines if e.local]
        if here:
            cores, cpus = {e.name: e.capacity.cpu for e in here}, range(os.cpu_count() or 1)
            platform.foreign = ForeignLoad(cores, cpus, partial(platform.containers.used, here))
        return LiveBackend(platform, folder.path, jobs, clock)


def api(kubeconfig: str = "") -> "Api":
    """Connect to the API server. The client is an optional dependency, and its import
    takes 0.2 s.
    """
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
    """Run the jobs as `TrainingJob`s of a cluster. This process places them."""

    image: str = ""
    """Default image of tasks."""
    namespace: str = ""
    """"": that of the kubeconfig."""
    nodes: ClassVar[None] = None
    """None, because clusters grow. A job that does not fit is pending, with the reason in its
    status."""
    factor: ClassVar[float] = 1.0

    @property
    def about(self) -> dict[str, Any]:
        return {"kubernetes": {"image": self.image, "namespace": self.namespace}}

    def backend(self, folder: RunDirectory, jobs: Jobs, clock: Clock) -> LiveBackend:
        there = api()  # raises an error that says what to install
        from headway.backend.kubernetes.platform.platform import (  # noqa: PLC0415 - an extra
            CONFIG,
            IMAGE,
            KubernetesPlatform,
        )
        from headway.backend.kubernetes.reports.certificate import find as find_endpoint  # noqa: PLC0415

        space = self.namespace or there.namespace
        own = os.environ.get("HEADWAY_IMAGE") or IMAGE
        platform = KubernetesPlatform(there, jobs, clock, namespace=space, run=folder.id, image=own)
        home = os.environ.get("HEADWAY_OPERATOR_NAMESPACE") or "headway"
        platform.pods.endpoint = find_endpoint(there, home)
        return LiveBackend(platform, folder.path, jobs, clock, config=CONFIG)


Target = Machine | Engines | OnCluster


def find_target(
    asked: Docker | OnCluster | None, workload: Workload, enforcement: str = ""
) -> Target:
    """Return where to run a workload; `asked`: None for this machine."""
    if asked and workload.link:
        raise ConfigError(
            "`link` is for virtual nodes of one machine",
            hint="remove it, or run without --backend",
        )
    if isinstance(asked, Docker):
        return Engines.of(asked, workload)
    return asked or Machine.of(workload, enforcement)
