"""The workload file: jobs with arrival times, and the nodes they run on."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from headway.core.estimate.step_rate import SERVER
from headway.core.model.node import Node
from headway.core.model.units import NodeId, Resources
from headway.spec.base_model import Strict, unique_names
from headway.spec.generated_jobs import MAX_JOBS, Arrivals
from headway.spec.link import LinkSpec
from headway.spec.manifest import Name, TaskSpec, TrainingJobSpec
from headway.spec.node_spec import NodeSpec
from headway.spec.profile import Knows, Profile
from headway.spec.quantity import Count, Cpu, Factor, Time
from headway.trainings import DISTRIBUTED

MAX_NODES = 10_000


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
    """Unique in the workload."""
    at: Time = 0.0
    """When it is submitted, after the start of the run."""
    model: str = ""
    """A built-in model, or one of `models`."""
    workers: Workers | None = None
    """Of a distributed model: ps-sync, ps-async, ddp or mirrored."""
    manifest: str = ""
    """Path of a file of kind TrainingJob, relative to this file."""
    spec: TrainingJobSpec | None = None
    """The spec of a TrainingJob, inline."""
    profile: Profile | None = None
    """What the simulator does instead of running its command."""
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
    """For the simulator: what interruptions cost."""

    save_s: Time = 2.5
    """Time to save a checkpoint and exit."""
    restore_s: Time = 2.5
    """Time from the start until it trains again."""
    cost_sd_s: Time = 0.0
    """Standard deviation of both."""
    rescale_s: Time = 10.0
    """Time in which a distributed job does not train when its number of workers changes."""
    start_s: Time = 0.0
    """From the first start of a job until it trains."""


class FailureSpec(Strict):
    """For the simulator: a node that is lost for a time, or a job that fails."""

    at: Time
    """When it fails."""
    node: str = ""
    """Name of the node."""
    job: str = ""
    """Name of the job, instead of a node."""
    lasts: Time = 60.0
    """How long the node is lost."""

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
    """Jobs with arrival times, and the nodes they run on."""

    api_version: Annotated[Literal["headway.dev/v1alpha1"], Field(alias="apiVersion")]
    """Version of this format."""
    kind: Literal["Workload"]
    """Kind of this file."""
    name: str = ""
    """Shown in reports. Defaults to the name of the file."""
    pool: str = "flowcon"
    """Table of built-in models: flowcon or specon."""
    models: dict[str, Profile] = {}
    """Additional models, by name."""
    nodes: Count | tuple[NodeSpec, ...] = 1
    """The nodes, or their number. If they have more CPU than the machine, `headway run` scales them
    down."""
    link: LinkSpec | None = None
    """For one machine: the network between its virtual nodes."""
    jobs: Annotated[tuple[JobEntry, ...], Field(max_length=MAX_JOBS), unique_names("jobs")] = ()
    """Jobs, one by one."""
    arrivals: Arrivals | None = None
    """More jobs, generated at random."""
    sizes: Sizes = Sizes()
    """What is known in advance of the work of each job."""
    costs: CostSpec = CostSpec()
    """For the simulator: what interruptions cost."""
    sharing: Annotated[float, Field(ge=0, le=1)] = 0.0
    """For the simulator: part of the CPU that is lost as soon as replicas share a core. `headway
    calibrate --machine` measures this and the next two."""
    contention: Annotated[float, Field(ge=0, le=1)] = 0.0
    """For the simulator: the same, for each further replica."""
    oversubscription: Annotated[float, Field(ge=0, le=1)] = 0.0
    """For the simulator: the same, for limits that add up to more than the node."""
    failures: tuple[FailureSpec, ...] = ()
    """For the simulator: nodes and jobs that fail."""
    seed: int = 0
    """Of everything that is random."""

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
