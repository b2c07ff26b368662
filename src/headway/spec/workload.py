"""The workload file: jobs with arrival times, and the nodes to run on."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from headway.core.model.node import Node
from headway.core.model.units import NodeId, Resources
from headway.spec.base_model import Strict
from headway.spec.manifest import Name, TrainingJobSpec
from headway.spec.quantity import Cpu, Memory, Positive, Time
from headway.spec.speed import SpeedSpec

Count = Annotated[int, Field(ge=1)]
Part = Annotated[float, Field(gt=0.2, lt=1)]


class CurveSpec(Strict):
    shape: Literal["inverse", "exponential"] = "inverse"
    at20: Part = 0.8
    start: Annotated[float, Field(allow_inf_nan=False)] = 1.0
    end: Annotated[float, Field(allow_inf_nan=False)] = 0.1
    noise: Annotated[float, Field(ge=0, le=1)] = 0.0
    file: str = ""
    """A CSV of measured (step, value), instead of a shape."""

    @model_validator(mode="after")
    def _goes_somewhere(self) -> Self:
        if not self.file and self.start == self.end:
            raise ValueError("start and end are equal: a loss that never changes")
        return self


class Profile(Strict):
    work: Positive
    """Core-seconds on a core of speed 1."""
    demand: Positive = 1.0
    """The most cores that one replica can use at once."""
    steps: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 1000
    speed: SpeedSpec | None = None
    """Of a distributed job. Its work may then be left out: it is that of all its steps."""
    curve: CurveSpec = CurveSpec()
    memory: Memory | None = None
    """The most that one replica holds."""
    save_s: Time | None = None
    """How long it takes to save itself and leave; None: what the workload's `costs` say."""
    restore_s: Time | None = None
    """From its start until it trains again."""

    @model_validator(mode="before")
    @classmethod
    def _work_of_its_steps(cls, data: Any) -> Any:
        if isinstance(data, dict) and "speed" in data and "work" not in data:
            try:
                speed = SpeedSpec.model_validate(data["speed"])
                return {**data, "work": speed.work * float(data.get("steps", 1000))}
            except (ValueError, TypeError):
                return {**data, "work": 1.0}  # its own check, which follows, says what is wrong
        return data


class NodeSpec(Strict):
    name: str = ""
    cpu: Annotated[Cpu, Field(gt=0)] = 1.0
    memory: Memory = 64 * 2.0**30
    gpu: Annotated[float, Field(ge=0)] = 0.0
    speed: Positive = 1.0
    rack: str = ""
    engine: str = ""
    """The Docker engine that it is, or is a part of: unix:///… or tcp://…"""
    count: Count = 1


class DrawnTask(Strict):
    """A task of a generated job: one of each list; the bounds always hold the replicas."""

    name: Name = "worker"
    replicas: Annotated[tuple[Count, ...], Field(min_length=1)] = (1,)
    min: Annotated[tuple[Count, ...], Field(min_length=1)] | None = None
    max: Annotated[tuple[Count, ...], Field(min_length=1)] | None = None
    max_times: Annotated[float, Field(ge=1, allow_inf_nan=False)] | None = None
    """Or as many as the replicas times this."""
    limit: Cpu | None = None
    """Cores that a replica may use at most, whatever it asks for."""
    cpu: Annotated[tuple[Cpu, ...], Field(min_length=1)] = (0.0,)
    memory: Annotated[tuple[Memory, ...], Field(min_length=1)] = (0.0,)
    gpu: Annotated[tuple[Annotated[float, Field(ge=0)], ...], Field(min_length=1)] = (0.0,)


class JobEntry(Strict):
    """One job: a built-in model, a manifest by path or in line, or a profile alone."""

    name: Name
    at: Time = 0.0
    model: str = ""
    manifest: str = ""
    spec: TrainingJobSpec | None = None
    profile: Profile | None = None
    measured: Profile | None = None
    """What `headway calibrate` found: the simulator goes by it, and real runs know its size."""

    @model_validator(mode="after")
    def _is_something(self) -> Self:
        given = [k for k in ("model", "manifest", "spec") if getattr(self, k)]
        if len(given) > 1:
            raise ValueError(f"give one of {' and '.join(given)}, not both")
        if not given and self.profile is None:
            raise ValueError("say what it is: model, manifest, spec or profile")
        if self.profile and self.profile.speed and not self.manifest:
            tasks = (self.spec or TrainingJobSpec()).tasks
            self.profile.speed.suits([t.name for t in tasks], self.name)
        return self


Steps = Annotated[float, Field(ge=1, allow_inf_nan=False)]


class Drawn(Strict):
    """A job drawn at random: one of each list, the work (of a distributed job: the steps) varied
    by a part of itself.
    """

    work: Annotated[tuple[Positive, ...], Field(min_length=1)] | None = None
    vary: Annotated[float, Field(ge=0, lt=1)] = 0.0
    demand: Annotated[tuple[Positive, ...], Field(min_length=1)] = (1.0,)
    steps: Steps | Annotated[tuple[Steps, ...], Field(min_length=1)] = 1000
    speed: SpeedSpec | Annotated[tuple[SpeedSpec, ...], Field(min_length=1)] | None = None
    tasks: tuple[DrawnTask, ...] = ()
    curve: CurveSpec = CurveSpec()

    @model_validator(mode="after")
    def _how_much(self) -> Self:
        if (self.work is None) == (self.speed is None):
            raise ValueError("give either work or, for distributed jobs, speed and steps")
        for speed in () if self.speed is None else _listed(self.speed):
            speed.suits([t.name for t in self.tasks] or ["main"], "drawn")
        return self


class Arrivals(Strict):
    """Generated jobs: when they come, how many, of what."""

    uniform: tuple[Time, Time] | None = None
    every_s: Time | None = None
    poisson_s: Annotated[Time, Field(gt=0)] | None = None
    """Mean gap between two arrivals."""
    load: Positive | None = None
    """Poisson arrivals so close that the jobs, each run as it asks, would need this part of the
    cluster."""
    jobs: Count | None = None
    models: tuple[str, ...] | Literal["any"] | None = None
    profile: Drawn | None = None
    checkpoint: Literal["none", "sigterm", "sdk"] = "none"

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        known = ("uniform", "every_s", "poisson_s", "load")
        ways = [k for k in known if getattr(self, k) is not None]
        if len(ways) != 1:
            raise ValueError("give exactly one of uniform, every_s, poisson_s and load")
        if self.load is not None and self.profile is None:
            raise ValueError("a load needs `profile`: what the jobs are")
        if self.uniform and self.uniform[0] > self.uniform[1]:
            raise ValueError("uniform is [earliest, latest]")
        if (self.models is None) == (self.profile is None):
            raise ValueError("give either models or profile")
        if self.jobs is None and not isinstance(self.models, tuple):
            raise ValueError("say how many: jobs")
        return self


class Sizes(Strict):
    """What is known beforehand of how much work each job is. Nothing given: all of it."""

    wrong: Annotated[float, Field(ge=1)] | None = None
    """Told, but wrong by up to this factor, either way."""
    earlier: Annotated[float, Field(ge=0, lt=1)] | None = None
    """Known from an earlier run, which differed by up to this part."""
    curves: bool = False
    """Nothing is told but the loss, as it comes."""
    nothing: bool = False
    """Nothing is told at all."""

    @model_validator(mode="after")
    def _one_at_most(self) -> Self:
        if sum((self.wrong is not None, self.earlier is not None, self.curves, self.nothing)) > 1:
            raise ValueError("give one of wrong, earlier, curves and nothing")
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
    def _of_one(self) -> Self:
        if bool(self.node) == bool(self.job):
            raise ValueError("name a node or a job that fails")
        return self


class Workload(Strict):
    api_version: Annotated[Literal["headway.dev/v1alpha1"], Field(alias="apiVersion")]
    kind: Literal["Workload"]
    name: str = ""
    pool: str = "flowcon"
    """Which table of built-in models `model` names: flowcon or specon."""
    models: dict[str, Profile] = {}
    """Models of one's own, beside the built-in ones."""
    nodes: Annotated[int, Field(ge=1)] | tuple[NodeSpec, ...] = 1
    jobs: tuple[JobEntry, ...] = ()
    arrivals: Arrivals | None = None
    sizes: Sizes = Sizes()
    costs: CostSpec = CostSpec()
    contention: Annotated[float, Field(ge=0, le=1)] = 0.0
    failures: tuple[FailureSpec, ...] = ()
    seed: int = 0

    @field_validator("jobs")
    @classmethod
    def _one_name_each(cls, jobs: tuple[JobEntry, ...]) -> tuple[JobEntry, ...]:
        names = [j.name for j in jobs]
        double = next((n for n in names if names.count(n) > 1), None) if _repeats(names) else None
        if double:
            raise ValueError(f"two jobs are called {double!r}")
        return jobs

    @model_validator(mode="after")
    def _has_jobs_and_nodes(self) -> Self:
        if not self.jobs and self.arrivals is None:
            raise ValueError("no jobs: give `jobs`, or `arrivals` to generate some")
        if self.nodes == ():
            raise ValueError("no nodes: give a number or a list")
        names = [n.id for n in self.to_nodes()]
        if _repeats(names):
            raise ValueError("two nodes have the same name")
        return self

    def to_nodes(self) -> tuple[Node, ...]:
        """Written out: `count` unfolded, the nameless named."""
        listed: tuple[Any, ...] = (
            (NodeSpec(count=self.nodes),) if isinstance(self.nodes, int) else self.nodes
        )
        out: list[Node] = []
        for spec in listed:
            for i in range(spec.count):
                name = f"{spec.name}-{i}" if spec.name and spec.count > 1 else spec.name
                out.append(
                    Node(
                        id=NodeId(name or f"node-{len(out)}"),
                        capacity=Resources(cpu=spec.cpu, memory=spec.memory, gpu=spec.gpu),
                        speed=spec.speed,
                        rack=spec.rack,
                    )
                )
        return tuple(out)


def _listed(given: Any) -> tuple[Any, ...]:
    return given if isinstance(given, tuple) else (given,)


def _repeats(names: list[Any]) -> bool:
    return len(set(names)) < len(names)
