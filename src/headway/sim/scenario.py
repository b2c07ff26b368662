"""A scenario: a workload with all jobs written out, as the simulator runs it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from random import Random

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
    start: Seconds = 0.0
    """From the first start until it trains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """What becomes known of a job while it runs."""

    spec: JobSpec
    time: Seconds = 0.0
    """Earliest time since its start."""
    work: CoreSeconds = 0.0
    """Least work done."""


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
    announces: Announcement | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A node that is down for a while, or a job of which a replica fails."""

    at: Seconds
    node: NodeId | None = None
    job: JobId | None = None
    lasts: Seconds = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignLoad:
    """Cores of a node that processes outside Headway use: given, or drawn at intervals."""

    node: NodeId
    given: tuple[tuple[Seconds, Cores], ...] = ()
    between: tuple[Cores, Cores] = (0.0, 0.0)
    every: Seconds = 30.0

    def changes(self, seed: int) -> Iterator[tuple[Seconds, Cores]]:
        """Yield the time of each change, and the cores from then on."""
        if self.given:
            yield from self.given
            return
        dice = Random(f"foreign/{seed}/{self.node}")
        for i in count():
            yield i * self.every, dice.uniform(*self.between)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    nodes: tuple[Node, ...]
    jobs: tuple[Arrival, ...]
    """In order of arrival."""
    costs: Costs = Costs()
    sharing: float = 0.0
    contention: float = 0.0
    oversubscription: float = 0.0
    """Capacity that a node with n > 1 replicas loses: cpu / (1 + sharing + contention (n - 1) +
    oversubscription max(0, wanted / cpu - 1)), where `wanted` is the sum of the cores that each
    could use by its demand and its ceiling."""
    failures: tuple[Failure, ...] = ()
    foreign: tuple[ForeignLoad, ...] = ()
    seed: int = 0
