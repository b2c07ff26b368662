"""A scenario: a workload with all jobs written out, as the simulator runs it."""

from dataclasses import dataclass, field

from headway.core.model.job import JobSpec
from headway.core.model.node import Node
from headway.core.model.units import Cores, CoreSeconds, JobId, NodeId, Seconds
from headway.sim.curve import Curve


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Seconds during which a job does not train."""

    save: Seconds = 2.5
    restore: Seconds = 2.5
    sd: Seconds = 0.0
    """Standard deviation of save and restore together."""
    rescale: Seconds = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    id: JobId
    at: Seconds
    spec: JobSpec
    work: CoreSeconds
    demand: Cores = 1.0
    """The most cores that one of its replicas can use."""
    steps: float = 1000
    curve: Curve = field(default_factory=Curve)
    silent: bool = False
    """Whether it prints no values."""
    costs: Costs | None = None
    """Costs of this job; None: those of the scenario."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A node that is down for a while, or a job of which a replica fails."""

    at: Seconds
    node: NodeId | None = None
    job: JobId | None = None
    lasts: Seconds = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    nodes: tuple[Node, ...]
    jobs: tuple[Arrival, ...]
    """In order of arrival."""
    costs: Costs = Costs()
    contention: float = 0.0
    """Capacity lost to each further replica on a node: cpu / (1 + contention (n - 1))."""
    failures: tuple[Failure, ...] = ()
    seed: int = 0
