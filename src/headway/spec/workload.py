"""The workload file: jobs with arrival times, and the nodes they run on."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from headway.core.estimate.step_rate import SERVER
from headway.core.model.node import Node
from headway.core.model.units import NodeId, Resources
from headway.spec.base_model import Strict, unique_names
from headway.spec.manifest import Name, TaskSpec, TrainingJobSpec
from headway.spec.quantity import (
    Count,
    Cpu,
    Factor,
    Gpus,
    Memory,
    Number,
    Positive,
    Time,
    parse_quantity,
    parse_time,
)
from headway.spec.speed import SpeedSpec
from headway.trainings import DISTRIBUTED

MAX_NODES, MAX_JOBS = 10_000, 100_000
NODE_NAME = r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"
NodeName = Annotated[str, Field(pattern=NODE_NAME, max_length=63)]
"""Part of the names of files and cgroups. Empty: a default."""
Fraction = Annotated[float, Field(ge=0, le=1)]
Part = Annotated[float, Field(gt=0.2, lt=1)]
Steps = Annotated[float, Field(ge=1, le=1e15)]


class CurveSpec(Strict):
    shape: Literal["inverse", "exponential"] = "inverse"
    at20: Part = 0.8
    power: Annotated[float, Field(gt=0, le=10)] = 1.0
    """Exponent of the `exponential` shape."""
    start: Number = 1.0
    end: Number = 0.1
    noise: Annotated[float, Field(ge=0, le=1)] = 0.0
    file: str = ""
    """CSV file of measured (step, value), instead of a shape."""

    @model_validator(mode="after")
    def _changes(self) -> Self:
        if not self.file and self.start == self.end:
            raise ValueError("start and end must differ")
        return self


class Profile(Strict):
    work: Positive
    """Total work in core-seconds on a core of speed 1."""
    demand: Positive = 1.0
    """Maximum number of cores that one replica can use."""
    steps: Steps = 1000
    speed: SpeedSpec | None = None
    """Speed of a distributed job; `work` then defaults to the work of all steps."""
    curve: CurveSpec = CurveSpec()
    memory: Memory | None = None
    """Peak memory of one replica."""
    save_s: Time | None = None
    """Time to save a checkpoint and exit. Defaults to the workload's `costs`."""
    restore_s: Time | None = None
    """Time from the start until it trains again. Defaults to the workload's `costs`."""

    @model_validator(mode="before")
    @classmethod
    def _work_of_steps(cls, data: Any) -> Any:
        if isinstance(data, dict) and "speed" in data and "work" not in data:
            try:
                speed = SpeedSpec.model_validate(data["speed"])
                work = speed.work * float(data.get("steps", 1000))
            except (ValueError, TypeError):
                work = 1.0  # the check of `speed`, which follows, reports the error
            return {**data, "work": work}
        return data


class ForeignStep(Strict):
    at: Time
    cpu: Annotated[Cpu, Field(ge=0)]


class ForeignDistribution(Strict):
    """A part of the node between these bounds, drawn again at each interval."""

    between: tuple[Fraction, Fraction]
    every_s: Annotated[Time, Field(gt=0)] = 30.0

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.between[0] > self.between[1]:
            raise ValueError("between must be [least, most]")
        return self


class NodeSpec(Strict):
    name: NodeName = ""
    cpu: Annotated[Cpu, Field(ge=1e-6)] = 1.0
    memory: Memory = 64 * 2.0**30
    gpu: Gpus = 0.0
    speed: Positive = 1.0
    rack: str = ""
    images: dict[str, Memory] = {}
    """For the simulator: container images that it has, and their sizes."""
    engine: str = ""
    """URL of the Docker engine of this node: unix:///… or tcp://…"""
    foreign: ForeignDistribution | tuple[ForeignStep, ...] = ()
    """For the simulator: CPU that processes outside Headway use."""
    count: Count = 1


class TaskDistribution(Strict):
    """A task of generated jobs. Each list holds the values to choose from; the bounds are extended
    to include the number of replicas.
    """

    name: Name = "worker"
    replicas: Annotated[tuple[Count, ...], Field(min_length=1)] = (1,)
    min: Annotated[tuple[Count, ...], Field(min_length=1)] | None = None
    max: Annotated[tuple[Count, ...], Field(min_length=1)] | None = None
    max_times: Factor | None = None
    """Maximum as a multiple of the replicas."""
    limit: Cpu | None = None
    """CPU limit of a replica."""
    cpu: Annotated[tuple[Cpu, ...], Field(min_length=1)] = (0.0,)
    memory: Annotated[tuple[Memory, ...], Field(min_length=1)] = (0.0,)
    gpu: Annotated[tuple[Gpus, ...], Field(min_length=1)] = (0.0,)


class Announcement(Strict):
    """A job of unknown size that announces its number of steps while it runs."""

    after: float | str
    """Time since its start (`30s`), or part of its own work (`20%`)."""

    @field_validator("after")
    @classmethod
    def _time_or_percentage(cls, given: float | str) -> float | str:
        part = str(given).removesuffix("%")
        if part == str(given):
            parse_time(given)
        elif not 0 <= parse_quantity(part, {"": 1.0}, "work", "20%") <= 100:
            raise ValueError("a part of the work is at most 100%")
        return given

    @property
    def time(self) -> float:
        return 0.0 if self.part else parse_time(self.after)

    @property
    def part(self) -> float:
        given = str(self.after)
        return float(given[:-1]) / 100 if given.endswith("%") else 0.0


Knows = Literal["all", "nothing"] | Announcement


class Workers(Strict):
    """Workers of a built-in distributed model."""

    replicas: Count = 1
    """Number of workers at the start."""
    min: Count | None = None
    """Minimum number of workers. Defaults to `replicas`."""
    max: Count | None = None
    """Maximum number of workers. Defaults to `replicas`."""
    cpu: Cpu = 0.0
    """Cores that each worker requests."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not (self.min or self.replicas) <= self.replicas <= (self.max or self.replicas):
            raise ValueError("replicas must be between min and max")
        return self

    def tasks(self, model: str) -> tuple[TaskSpec, ...]:
        """Return the tasks of the model: these workers, and the parameter server if it has one."""
        worker = {
            "name": "worker",
            "replicas": self.replicas,
            "minReplicas": self.min,
            "maxReplicas": self.max,
            "elastic": "independent" if model == "ps-async" else "restart",
            "resources": {"requests": {"cpu": self.cpu}},
        }
        workers = TaskSpec.model_validate(worker)
        return (TaskSpec(name=SERVER), workers) if SERVER in DISTRIBUTED[model] else (workers,)


class JobEntry(Strict):
    """One job: a built-in model, a manifest by path or inline, or only a profile."""

    name: Name
    at: Time = 0.0
    model: str = ""
    workers: Workers | None = None
    """Of a distributed model: ps-sync, ps-async or ddp."""
    manifest: str = ""
    spec: TrainingJobSpec | None = None
    profile: Profile | None = None
    measured: Profile | None = None
    """Profile measured by `headway calibrate`, used by the simulator and as a size estimate."""
    knows: Knows = "all"
    """For the simulator: what is known of its size, steps and demand, and when."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        given = [k for k in ("model", "manifest", "spec") if getattr(self, k)]
        if len(given) > 1:
            raise ValueError(f"give one of {' and '.join(given)}, not both")
        if not given and self.profile is None:
            raise ValueError("give one of model, manifest, spec and profile")
        if self.workers and self.model not in DISTRIBUTED:
            raise ValueError(f"workers needs a distributed model: {', '.join(DISTRIBUTED)}")
        if self.profile and self.profile.speed and not self.manifest:
            tasks = self.distributed_tasks or (self.spec or TrainingJobSpec()).tasks
            self.profile.speed.check_tasks([t.name for t in tasks], self.name)
        return self

    @property
    def distributed_tasks(self) -> tuple[TaskSpec, ...]:
        """The tasks of a distributed model, without their commands."""
        return (self.workers or Workers()).tasks(self.model) if self.model in DISTRIBUTED else ()


class JobDistribution(Strict):
    """Generated jobs. Each list holds the values to choose from; the work (of distributed jobs: the
    steps) varies by the fraction `vary`.
    """

    work: Annotated[tuple[Positive, ...], Field(min_length=1)] | None = None
    vary: Annotated[float, Field(ge=0, lt=1)] = 0.0
    demand: Annotated[tuple[Positive, ...], Field(min_length=1)] = (1.0,)
    steps: Steps | Annotated[tuple[Steps, ...], Field(min_length=1)] = 1000
    speed: SpeedSpec | Annotated[tuple[SpeedSpec, ...], Field(min_length=1)] | None = None
    tasks: Annotated[tuple[TaskDistribution, ...], Field(max_length=16), unique_names("tasks")] = ()
    curve: CurveSpec = CurveSpec()

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
    every_s: Time | None = None
    poisson_s: Annotated[Time, Field(gt=0)] | None = None
    """Mean time between arrivals of a Poisson process."""
    load: Positive | None = None
    """Poisson arrivals at the rate at which the jobs, run as requested, use this fraction of the
    cluster."""
    jobs: Annotated[int, Field(ge=1, le=MAX_JOBS)] | None = None
    models: Annotated[tuple[str, ...], Field(min_length=1)] | Literal["any"] | None = None
    profile: JobDistribution | None = None
    checkpoint: Literal["none", "sigterm", "sdk"] = "none"
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


class Sizes(Strict):
    """What is known in advance of the work of each job. Default: all of it."""

    wrong: Factor | None = None
    """Known with an error of up to this factor in either direction."""
    earlier: Annotated[float, Field(ge=0, lt=1)] | None = None
    """Known from an earlier run, which differs by up to this fraction."""
    curves: bool = False
    """Unknown; only the reported loss is used."""
    nothing: bool = False
    """Unknown, and no loss is reported."""

    @model_validator(mode="after")
    def _at_most_one(self) -> Self:
        if sum((self.wrong is not None, self.earlier is not None, self.curves, self.nothing)) > 1:
            raise ValueError("give at most one of wrong, earlier, curves and nothing")
        return self


class CostSpec(Strict):
    save_s: Time = 2.5
    restore_s: Time = 2.5
    cost_sd_s: Time = 0.0
    rescale_s: Time = 10.0


class FailureSpec(Strict):
    at: Time
    node: str = ""
    job: str = ""
    lasts: Time = 60.0

    @model_validator(mode="after")
    def _one_target(self) -> Self:
        if bool(self.node) == bool(self.job):
            raise ValueError("give either the node or the job that fails")
        return self


def make_workload(**fields: Any) -> "Workload":
    """Return a workload from the fields of its file, which have no header."""
    head = {"apiVersion": "headway.dev/v1alpha1", "kind": "Workload"}
    return Workload.model_validate(head | fields)


class Workload(Strict):
    api_version: Annotated[Literal["headway.dev/v1alpha1"], Field(alias="apiVersion")]
    kind: Literal["Workload"]
    name: str = ""
    pool: str = "flowcon"
    """Table of built-in models: flowcon or specon."""
    models: dict[str, Profile] = {}
    """Additional models, by name."""
    nodes: Count | tuple[NodeSpec, ...] = 1
    jobs: Annotated[tuple[JobEntry, ...], Field(max_length=MAX_JOBS), unique_names("jobs")] = ()
    arrivals: Arrivals | None = None
    sizes: Sizes = Sizes()
    costs: CostSpec = CostSpec()
    sharing: Annotated[float, Field(ge=0, le=1)] = 0.0
    contention: Annotated[float, Field(ge=0, le=1)] = 0.0
    oversubscription: Annotated[float, Field(ge=0, le=1)] = 0.0
    """For the simulator: CPU that a node with several replicas loses. `headway calibrate --machine`
    measures these three."""
    failures: tuple[FailureSpec, ...] = ()
    seed: int = 0

    @model_validator(mode="after")
    def _has_jobs_and_nodes(self) -> Self:
        if not self.jobs and self.arrivals is None:
            raise ValueError("no jobs: give `jobs` or `arrivals`")
        if self.nodes == ():
            raise ValueError("no nodes: give a number or a list")
        count = self.nodes if isinstance(self.nodes, int) else sum(n.count for n in self.nodes)
        if count > MAX_NODES:
            raise ValueError(f"{count} nodes are more than the limit of {MAX_NODES}")
        names = [n.id for n in self.to_nodes()]
        if len(set(names)) < len(names):
            raise ValueError("two nodes have the same name")
        return self

    def to_nodes(self) -> tuple[Node, ...]:
        """Return the nodes, with `count` expanded and default names."""
        return tuple(
            Node(
                id=name,
                capacity=Resources(cpu=spec.cpu, memory=spec.memory, gpu=spec.gpu),
                speed=spec.speed,
                rack=spec.rack,
                images=tuple(spec.images.items()),
            )
            for name, spec in self.node_specs()
        )

    def node_specs(self) -> list[tuple[NodeId, NodeSpec]]:
        listed: tuple[Any, ...] = (
            (NodeSpec(count=self.nodes),) if isinstance(self.nodes, int) else self.nodes
        )
        out: list[tuple[NodeId, NodeSpec]] = []
        for spec in listed:
            for i in range(spec.count):
                name = f"{spec.name}-{i}" if spec.name and spec.count > 1 else spec.name
                out.append((NodeId(name or f"node-{len(out)}"), spec))
        return out
