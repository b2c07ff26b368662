"""The manifest: one `TrainingJob` file for every backend, and the source of the custom resource.

What is written below a field is what a user reads of it, here and in `kubectl explain`.
"""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from headway.core.model.job import Direction, Elastic, Expected, JobSpec, Mode, Task
from headway.core.model.units import NOTHING, Resources
from headway.spec.base_model import Manifest, Rule
from headway.spec.pod_fields import EnvFrom, Mount, PodTemplate, Toleration
from headway.spec.quantity import Cpu, Memory, Time

Name = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=63)]
SERVER = "ps"
GROUP, VERSION, PLURAL = "headway.dev", "v1alpha1", "trainingjobs"
NAME = f"{PLURAL}.{GROUP}"
"""Of the custom resource."""


class Metric(Manifest):
    """What tells how good the model is."""

    name: str = "loss"
    """As the job prints or reports it."""
    direction: Literal["minimize", "maximize"] = "minimize"
    """Which way is better."""


class Checkpoint(Manifest):
    """How a job saves itself, so that it can be moved and suspended."""

    mode: Literal["none", "sigterm", "sdk"] = "none"
    """Never; on SIGTERM, before it leaves; or when it is asked through the SDK."""
    grace_seconds: Time = 30.0
    """How long it may take to save itself and leave."""


class Reports(Manifest):
    """How its progress is read, where Headway does not find it by itself."""

    pattern: str = ""
    """A regular expression for a line of the log, with the group `value` and perhaps `step` and
    `total`."""


class Amounts(Manifest):
    """What each replica asks for; it starts where that is free."""

    cpu: Cpu = 0.0
    """Cores, such as 500m or "0.5"."""
    memory: Memory = 0.0
    """Bytes, such as 512Mi."""
    gpu: Annotated[float, Field(ge=0)] = 0.0
    """GPUs."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            field="gpu",
            says="must be a whole number: a cluster lends GPUs whole",
            cel="!has(self.gpu) || double(int(self.gpu)) == self.gpu",
        ),
    )


class Limits(Manifest):
    """The most that each replica may take."""

    cpu: Cpu | None = None
    """Cores, such as 500m or "0.5"."""
    memory: Memory | None = None
    """Bytes, such as 512Mi."""


def _at_most(what: str) -> str:
    asked, most = f"self.requests.{what}", f"self.limits.{what}"
    given = " || ".join(f"!has({x})" for x in ("self.requests", asked, "self.limits", most))
    amounts = [f"quantity(string({x}).replace(' ', ''))" for x in (asked, most)]
    return f"{given} || {amounts[0]}.compareTo({amounts[1]}) <= 0"


class ResourceSpec(Manifest):
    """Of each replica."""

    requests: Amounts = Amounts()
    """What it asks for."""
    limits: Limits = Limits()
    """The most it may take."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            field="requests",
            says="cpu must not be above limits.cpu",
            cel=_at_most("cpu"),
            holds=lambda r: r.limits.cpu is None or r.requests.cpu <= r.limits.cpu,
        ),
        Rule(
            field="requests",
            says="memory must not be above limits.memory",
            cel=_at_most("memory"),
            holds=lambda r: r.limits.memory is None or r.requests.memory <= r.limits.memory,
        ),
    )


class TaskSpec(Manifest):
    """A role in the job; its replicas are alike."""

    name: Name = "main"
    """What it does: main, chief, ps, worker, or any other name. The job succeeds with its chief:
    `chief`, else `main`, else the first worker."""
    replicas: Annotated[int, Field(ge=1)] = 1
    """How many there are at the start."""
    min_replicas: Annotated[int, Field(ge=1)] | None = None
    """It can do with so few; left out: not with fewer than `replicas`."""
    max_replicas: Annotated[int, Field(ge=1)] | None = None
    """It can make use of so many; left out: of no more than `replicas`."""
    elastic: Elastic = Elastic.RESTART
    """How the number of replicas changes while the job runs. restart: checkpoint, stop all ranks,
    start in the new number. independent: replicas join and leave one by one (asynchronous
    parameter server)."""
    command: tuple[str, ...] = ()
    """What each replica runs, word by word; no shell is between. In a container: left out, what
    the image runs by itself."""
    image: str = ""
    """The container that it runs in, with Docker and Kubernetes."""
    resources: ResourceSpec = ResourceSpec()
    """Of each replica."""
    env: dict[str, str] = {}
    """Environment variables."""
    working_dir: str = ""
    """Where the command runs: beside the manifest, or in the container."""
    env_from: Annotated[tuple[EnvFrom, ...], Field(max_length=64)] = ()
    """Environment variables from config maps and secrets; `env` goes over them."""
    mounts: Annotated[tuple[Mount, ...], Field(max_length=64)] = ()
    """Folders that each replica sees."""
    node_selector: dict[str, str] = {}
    """Labels that a node must have."""
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=64)] = ()
    """Taints that a node may have all the same."""
    pod_template: PodTemplate | None = None
    """What the manifest has no word for: parts of a pod, as Kubernetes spells them."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            field="minReplicas",
            says="must not be above maxReplicas",
            cel="!has(self.minReplicas) || !has(self.maxReplicas)"
            " || self.minReplicas <= self.maxReplicas",
            holds=lambda t: (
                not (t.min_replicas and t.max_replicas) or t.min_replicas <= t.max_replicas
            ),
        ),
        Rule(
            field="minReplicas",
            says="must not be above replicas",
            cel="!has(self.minReplicas) || self.minReplicas <= self.replicas",
            holds=lambda t: t.least <= t.replicas,
        ),
        Rule(
            field="maxReplicas",
            says="must not be below replicas",
            cel="!has(self.maxReplicas) || self.replicas <= self.maxReplicas",
            holds=lambda t: t.replicas <= t.most,
        ),
        Rule(
            field="image",
            says="say which image it runs in: a cluster has no other place for it",
            cel="has(self.image) && self.image != ''",
        ),
        Rule(
            field="name",
            says="must have no dot: on a cluster it is part of a host name",
            cel="!self.name.contains('.')",
        ),
    )

    @property
    def least(self) -> int:
        return self.replicas if self.min_replicas is None else self.min_replicas

    @property
    def most(self) -> int:
        return self.replicas if self.max_replicas is None else self.max_replicas

    @property
    def scalable(self) -> bool:
        return self.least < self.most

    def to_core(self, replicas: int) -> Task:
        asked = self.resources.requests
        request = Resources(cpu=asked.cpu, memory=asked.memory, gpu=asked.gpu)
        return Task(
            name=self.name,
            replicas=replicas,
            least=self.least,
            most=self.most,
            request=NOTHING if request == NOTHING else request,
            limit=self.resources.limits.cpu,
            elastic=self.elastic,
        )


_LEAST = "(has(t.minReplicas) ? t.minReplicas : t.replicas)"
_MOST = "(has(t.maxReplicas) ? t.maxReplicas : t.replicas)"
_SCALABLE = f"self.tasks.filter(t, {_LEAST} < {_MOST})"


class TrainingJobSpec(Manifest):
    """What to train, and with how much."""

    metric: Metric = Metric()
    """What tells how good the model is; found by itself in most logs."""
    total_steps: Annotated[float, Field(gt=0)] | None = None
    """How many steps it will make; then its size is known soon after it starts."""
    checkpoint: Checkpoint = Checkpoint()
    """How it saves itself, so that it can be moved and suspended."""
    reports: Reports = Reports()
    """How its progress is read, where Headway does not find it by itself."""
    priority: Annotated[int, Field(ge=-10, le=10)] = 0
    """More is more important."""
    tasks: Annotated[tuple[TaskSpec, ...], Field(min_length=1, max_length=16)] = (TaskSpec(),)
    """Its roles. They start together or not at all."""
    elastic_replicas: Annotated[int, Field(ge=1)] | None = None
    """Instead of `replicas` of the one task that is elastic (its minReplicas below its
    maxReplicas). This is what `kubectl scale` sets."""
    backoff_limit: Annotated[int, Field(ge=0)] = 3
    """How often it is tried again when it fails."""
    active_deadline_seconds: Time | None = None
    """A replica that runs for longer than this fails, and the job with it."""
    ttl_seconds_after_finished: Time | None = None
    """The job is deleted so long after its end; left out: never."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            field="tasks",
            says="somebody must do the work beside ps: add a task called worker",
            cel=f"self.tasks.exists(t, t.name != '{SERVER}')",
            holds=lambda s: any(t.name != SERVER for t in s.tasks),
        ),
        Rule(
            field="tasks",
            says="cannot be changed: delete the job and apply it anew",
            cel="self.tasks == oldSelf.tasks",
        ),
        Rule(
            field="elasticReplicas",
            says="needs exactly one task with minReplicas below maxReplicas",
            cel=f"!has(self.elasticReplicas) || {_SCALABLE}.size() == 1",
            holds=lambda s: s.elastic_replicas is None or sum(t.scalable for t in s.tasks) == 1,
        ),
        Rule(
            field="elasticReplicas",
            says="must lie between minReplicas and maxReplicas of the elastic task",
            cel=f"!has(self.elasticReplicas) || {_SCALABLE}.all(t, "
            f"{_LEAST} <= self.elasticReplicas && self.elasticReplicas <= {_MOST})",
            holds=lambda s: all(t.least <= s.count(t) <= t.most for t in s.tasks),
        ),
    )

    @field_validator("tasks")
    @classmethod
    def _one_name_each(cls, tasks: tuple[TaskSpec, ...]) -> tuple[TaskSpec, ...]:
        names = [t.name for t in tasks]
        double = next((n for n in names if names.count(n) > 1), None)
        if double:
            raise ValueError(f"two tasks are called {double!r}")
        return tasks

    def count(self, task: TaskSpec) -> int:
        """How many replicas it asks to be started with."""
        given = self.elastic_replicas
        return given if given is not None and task.scalable else task.replicas

    def to_core(self, *, kind: str, expected: Expected | None = None) -> JobSpec:
        return JobSpec(
            tasks=tuple(t.to_core(self.count(t)) for t in self.tasks),
            kind=kind,
            direction=Direction(self.metric.direction),
            total_steps=self.total_steps,
            expected=expected,
            checkpoint=Mode(self.checkpoint.mode),
            grace=self.checkpoint.grace_seconds,
            priority=self.priority,
            backoff_limit=self.backoff_limit,
        )


class Metadata(Manifest):
    """What the job is called. All but its name matters on a cluster only."""

    name: Name
    """Its own among all jobs of the namespace."""
    namespace: str = ""
    """Of a cluster."""
    labels: dict[str, str] = {}
    """To find it by."""
    annotations: dict[str, str] = {}
    """To remember things by."""


class TrainingJob(Manifest):
    """A training job: what to run, how it tells its progress, and how it may be treated."""

    api_version: Literal["headway.dev/v1alpha1"] = "headway.dev/v1alpha1"
    """Which version of this schema the file is written for."""
    kind: Literal["TrainingJob"] = "TrainingJob"
    """What the file is."""
    metadata: Metadata
    """What the job is called."""
    spec: TrainingJobSpec = TrainingJobSpec()
    """What to train, and with how much."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            field="metadata.name",
            says="on a cluster it is part of host names: letters, digits and '-', a letter first",
            cel="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        ),
        Rule(
            field="metadata.name",
            says="is too long: with the name of a task it may have 56 letters on a cluster",
            cel="self.spec.tasks.all(t, self.metadata.name.size() + t.name.size() <= 56)",
        ),
    )

    @model_validator(mode="before")
    @classmethod
    def _not_empty(cls, data: Any) -> Any:
        if data is None:
            raise ValueError("the file is empty")
        return data
