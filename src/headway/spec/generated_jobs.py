"""Jobs that a workload generates at random."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from headway.spec.base_model import Strict, unique_names
from headway.spec.manifest import Name
from headway.spec.profile import CurveSpec, Knows, Steps
from headway.spec.quantity import Count, Cpu, Factor, Gpus, Memory, Positive, Time
from headway.spec.speed import SpeedSpec

MAX_JOBS = 100_000


class TaskDistribution(Strict):
    """A task of generated jobs. Each list holds the values to choose from; the bounds are extended
    to include the number of replicas.
    """

    name: Name = "worker"
    """Name of the task."""
    replicas: Annotated[tuple[Count, ...], Field(min_length=1)] = (1,)
    """Number of replicas."""
    min: Annotated[tuple[Count, ...], Field(min_length=1)] | None = None
    """Minimum number of replicas."""
    max: Annotated[tuple[Count, ...], Field(min_length=1)] | None = None
    """Maximum number of replicas."""
    max_times: Factor | None = None
    """Maximum as a multiple of the replicas."""
    limit: Cpu | None = None
    """CPU limit of a replica."""
    cpu: Annotated[tuple[Cpu, ...], Field(min_length=1)] = (0.0,)
    """Cores that a replica requests."""
    memory: Annotated[tuple[Memory, ...], Field(min_length=1)] = (0.0,)
    """Memory that a replica requests."""
    gpu: Annotated[tuple[Gpus, ...], Field(min_length=1)] = (0.0,)
    """GPUs that a replica requests."""


class JobDistribution(Strict):
    """Generated jobs. Each list holds the values to choose from; the work (of distributed jobs: the
    steps) varies by the fraction `vary`.
    """

    work: Annotated[tuple[Positive, ...], Field(min_length=1)] | None = None
    """Total work in core-seconds on a core of speed 1."""
    vary: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Largest deviation of the work, as a fraction."""
    demand: Annotated[tuple[Positive, ...], Field(min_length=1)] = (1.0,)
    """Maximum number of cores that one replica can use."""
    steps: Steps | Annotated[tuple[Steps, ...], Field(min_length=1)] = 1000
    """Number of steps."""
    speed: SpeedSpec | Annotated[tuple[SpeedSpec, ...], Field(min_length=1)] | None = None
    """Speed of a distributed job, instead of `work`."""
    tasks: Annotated[tuple[TaskDistribution, ...], Field(max_length=16), unique_names("tasks")] = ()
    """Tasks of a distributed job. Default: one replica."""
    curve: CurveSpec = CurveSpec()
    """The metric over its steps."""

    @model_validator(mode="after")
    def _work_or_speed(self) -> Self:
        if (self.work is None) == (self.speed is None):
            raise ValueError("give either work or, for distributed jobs, speed and steps")
        speeds = self.speed if isinstance(self.speed, tuple) else (self.speed,)
        for speed in filter(None, speeds):
            speed.check_tasks([t.name for t in self.tasks] or ["main"], "generated")
        return self


class Arrivals(Strict):
    """Generated jobs: arrival times, count and kind."""

    uniform: tuple[Time, Time] | None = None
    """Arrival times drawn between these two."""
    every_s: Time | None = None
    """Time between arrivals."""
    poisson_s: Annotated[Time, Field(gt=0)] | None = None
    """Mean time between arrivals of a Poisson process."""
    load: Positive | None = None
    """Poisson arrivals at the rate at which the jobs, run as requested, use this fraction of the
    cluster."""
    jobs: Annotated[int, Field(ge=1, le=MAX_JOBS)] | None = None
    """Number of jobs. Defaults to one of each of `models`."""
    models: Annotated[tuple[str, ...], Field(min_length=1)] | Literal["any"] | None = None
    """Models of the jobs: a list, or `any` of the table at random."""
    profile: JobDistribution | None = None
    """What the jobs do, instead of models."""
    checkpoint: Literal["none", "sigterm", "sdk"] = "none"
    """How the jobs save checkpoints."""
    knows: Annotated[tuple[Knows, ...], Field(min_length=1)] = ("all",)
    """What is known of each job, in turn."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        known = ("uniform", "every_s", "poisson_s", "load")
        ways = [k for k in known if getattr(self, k) is not None]
        if len(ways) != 1:
            raise ValueError("give exactly one of uniform, every_s, poisson_s and load")
        if self.load is not None and self.profile is None:
            raise ValueError("load needs `profile`, which describes the jobs")
        if self.uniform and self.uniform[0] > self.uniform[1]:
            raise ValueError("uniform must be [earliest, latest]")
        if (self.models is None) == (self.profile is None):
            raise ValueError("give either models or profile")
        if self.jobs is None and not isinstance(self.models, tuple):
            raise ValueError("give the number of jobs: `jobs`")
        return self
