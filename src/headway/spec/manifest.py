"""The manifest: one `TrainingJob` file for every backend, and the source of the custom resource.

The docstring of a field is its documentation, in the reference and in `kubectl explain`.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator

from headway.core.estimate.step_rate import SERVER
from headway.core.model.job import Direction, Elastic, Expected, JobSpec, Mode, Task
from headway.core.model.units import NOTHING, Resources
from headway.metrics.log_parser import LogParser
from headway.spec.base_model import Manifest, Rule, unique_names
from headway.spec.pod_fields import EnvFrom, Mount, PodTemplate, Toleration
from headway.spec.quantity import Count, Cpu, Gpus, Memory, Time
from headway.spec.single_job import JOB_NAME, LONGEST_NAME

Name = Annotated[str, Field(pattern=JOB_NAME, max_length=LONGEST_NAME)]
GROUP, VERSION, PLURAL = "headway.dev", "v1alpha1", "trainingjobs"
NAME = f"{PLURAL}.{GROUP}"
"""Name of the custom resource definition."""


class Metric(Manifest):
    """The metric that measures progress."""

    name: Annotated[str, Field(pattern=r"\S", max_length=128)] = "loss"
    """Name of the metric, as the job prints or reports it."""
    direction: Literal["minimize", "maximize"] = "minimize"
    """Whether a lower or a higher value is better."""


class Checkpoint(Manifest):
    """How a job saves checkpoints, which it needs to be migrated or suspended."""

    mode: Literal["none", "sigterm", "sdk"] = "none"
    """none: never. sigterm: on SIGTERM, before it exits. sdk: when the SDK requests it."""
    grace_seconds: Time = 30.0
    """How long a replica may take to save a checkpoint and exit."""


class Reports(Manifest):
    """How progress is read from the log, if Headway does not recognise its format."""

    pattern: Annotated[str, Field(max_length=512)] = ""
    """Regular expression that matches a log line, with a group `value` and optional groups `step`
    and `total`, in the syntax of RE2: without look-around and back-references."""

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, given: str) -> str:
        LogParser(pattern=given or None)
        return given


class Amounts(Manifest):
    """Resources that are reserved for each replica; it starts on a node that has them free."""

    cpu: Cpu = 0.0
    """Cores, such as 500m or "0.5"."""
    memory: Memory = 0.0
    """Bytes, such as 512Mi."""
    gpu: Gpus = 0.0
    """Number of GPUs."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            field="gpu",
            message="must be a whole number: a cluster allocates whole GPUs",
            cel="!has(self.gpu) || double(int(self.gpu)) == self.gpu",
        ),
    )


class Limits(Manifest):
    """Upper limits of the resources of each replica."""

    cpu: Cpu | None = None
    """Cores, such as 500m or "0.5"."""
    memory: Memory | None = None
    """Bytes, such as 512Mi."""


def _within_limit(what: str) -> Rule:
    """Return the rule that the request of this resource does not exceed its limit."""
    request, limit = f"self.requests.{what}", f"self.limits.{what}"
    absent = " || ".join(f"!has({x})" for x in ("self.requests", request, "self.limits", limit))
    amounts = [f"quantity(string({x}).replace(' ', ''))" for x in (request, limit)]

    def holds(spec: "ResourceSpec") -> bool:
        most = getattr(spec.limits, what)
        return most is None or getattr(spec.requests, what) <= most

    return Rule(
        field="requests",
        message=f"{what} must not exceed limits.{what}",
        cel=f"{absent} || {amounts[0]}.compareTo({amounts[1]}) <= 0",
        holds=holds,
    )


class ResourceSpec(Manifest):
    """Resources of each replica."""

    requests: Amounts = Amounts()
    """Resources that are reserved."""
    limits: Limits = Limits()
    """Upper limits."""

    rules: ClassVar[tuple[Rule, ...]] = (_within_limit("cpu"), _within_limit("memory"))


class TaskSpec(Manifest):
    """A role in the job; all its replicas run the same command."""

    name: Name = "main"
    """Role of the task: main, chief, ps, worker, or any other name. The job succeeds when its chief
    exits with code 0: `chief`, else `main`, else the first worker."""
    replicas: Count = 1
    """Number of replicas at the start."""
    min_replicas: Count | None = None
    """Minimum number of replicas. Defaults to `replicas`."""
    max_replicas: Count | None = None
    """Maximum number of replicas. Defaults to `replicas`."""
    elastic: Elastic = Elastic.RESTART
    """How the number of replicas changes while the job runs. restart: checkpoint, stop all ranks,
    start in the new number. independent: replicas join and leave one by one (asynchronous
    parameter server). torchrun: each replica runs torchrun, whose agents join and leave one by one
    and restart the training from the last checkpoint."""
    command: tuple[str, ...] = ()
    """Command and arguments of each replica, run without a shell. In a container it defaults to the
    entry point of the image."""
    image: str = ""
    """Container image, with Docker and Kubernetes."""
    resources: ResourceSpec = ResourceSpec()
    """Resources of each replica."""
    env: dict[str, str] = {}
    """Environment variables."""
    working_dir: str = ""
    """Working directory: relative to the manifest, or in the container."""
    env_from: Annotated[tuple[EnvFrom, ...], Field(max_length=64)] = ()
    """Environment variables from config maps and secrets; `env` takes precedence."""
    mounts: Annotated[tuple[Mount, ...], Field(max_length=64)] = ()
    """Volumes that are mounted into each replica."""
    node_selector: dict[str, str] = {}
    """Labels that a node must have to run this task."""
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=64)] = ()
    """Taints of nodes that this task tolerates."""
    pod_template: PodTemplate | None = None
    """Further fields of the pods, in the syntax of Kubernetes."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            field="minReplicas",
            message="must not exceed maxReplicas",
            cel="!has(self.minReplicas) || !has(self.maxReplicas)"
            " || self.minReplicas <= self.maxReplicas",
            holds=lambda t: (
                not (t.min_replicas and t.max_replicas) or t.min_replicas <= t.max_replicas
            ),
        ),
        Rule(
            field="minReplicas",
            message="must not exceed replicas",
            cel="!has(self.minReplicas) || self.minReplicas <= self.replicas",
            holds=lambda t: t.least <= t.replicas,
        ),
        Rule(
            field="maxReplicas",
            message="must not be less than replicas",
            cel="!has(self.maxReplicas) || self.replicas <= self.maxReplicas",
            holds=lambda t: t.replicas <= t.most,
        ),
        Rule(
            field="image",
            message="is required on a cluster",
            cel="has(self.image) && self.image != ''",
        ),
        Rule(
            field="name",
            message="must not contain a dot: on a cluster it is part of a host name",
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
        given = self.resources.requests
        request = Resources(cpu=given.cpu, memory=given.memory, gpu=given.gpu)
        return Task(
            name=self.name,
            replicas=replicas,
            least=self.least,
            most=self.most,
            request=NOTHING if request == NOTHING else request,
            limit=self.resources.limits.cpu,
            elastic=self.elastic,
            image=self.image,
        )


_LEAST = "(has(t.minReplicas) ? t.minReplicas : t.replicas)"
_MOST = "(has(t.maxReplicas) ? t.maxReplicas : t.replicas)"
_SCALABLE = f"self.tasks.filter(t, {_LEAST} < {_MOST})"


MOST_ON_A_CLUSTER = 1000
"""Maximum number of replicas of a job on a cluster, because each one gets the addresses of all."""
_USER = r"^([a-z0-9_][-a-z0-9_.]*(:[a-z0-9_][-a-z0-9_.]*)?)?$"
Capability = Annotated[str, Field(pattern=r"^[A-Z][A-Z_]*$", max_length=32)]
DEFAULT_CAPABILITIES = "DEFAULT"


class TrainingJobSpec(Manifest):
    """Specification of a training job."""

    metric: Metric = Metric()
    """The metric that measures progress; recognised automatically in most logs."""
    total_steps: Annotated[float, Field(gt=0, le=1e15)] | None = None
    """Total number of steps. If set, the remaining work is known soon after the start."""
    checkpoint: Checkpoint = Checkpoint()
    """How the job saves checkpoints, which it needs to be migrated or suspended."""
    reports: Reports = Reports()
    """How progress is read from the log, if Headway does not recognise its format."""
    priority: Annotated[int, Field(ge=-10, le=10)] = 0
    """Jobs with a higher number start first, and get a larger fair share. On a cluster, the
    PriorityClass of the pods comes first."""
    tasks: Annotated[
        tuple[TaskSpec, ...], Field(min_length=1, max_length=16), unique_names("tasks")
    ] = (TaskSpec(),)
    """Tasks of the job. All replicas start together or not at all (gang scheduling)."""
    elastic_replicas: Count | None = None
    """Overrides `replicas` of the one scalable task (minReplicas less than maxReplicas).
    `kubectl scale` sets it."""
    suspend: bool = False
    """If true, the job is not started, and stopped if it runs; each replica gets its grace period.
    `tasks` can be changed while it is suspended."""
    backoff_limit: Annotated[int, Field(ge=0)] = 3
    """Number of retries before the job fails."""
    active_deadline_seconds: Time | None = None
    """Time limit: a job that runs longer than this fails."""
    ttl_seconds_after_finished: Time | None = None
    """The job is deleted this long after it finishes. Defaults to never."""
    run_as: Annotated[str, Field(pattern=_USER, max_length=64)] = ""
    """User that runs the job, as `user` or `user:group`, by name or number. On one machine, Headway
    must run as root. Defaults to the user of Headway; in a container, to that of the image if
    Headway runs as root."""
    capabilities: Annotated[tuple[Capability, ...], Field(max_length=64)] = ()
    """Linux capabilities of the job's containers on Docker, such as SYS_NICE. Defaults to none, and
    no process can gain privileges. DEFAULT: the capabilities of the engine, for images that change
    their user at the start."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            field="tasks",
            message="must have a task besides ps: add a task called worker",
            cel=f"self.tasks.exists(t, t.name != '{SERVER}')",
            holds=lambda s: any(t.name != SERVER for t in s.tasks),
        ),
        Rule(
            field="tasks",
            message=f"must not have more than {MOST_ON_A_CLUSTER} replicas in all, on a cluster",
            cel=f"self.tasks.map(t, {_MOST}).sum() <= {MOST_ON_A_CLUSTER}",
        ),
        Rule(
            field="tasks",
            message="can be changed only while the job is suspended",
            cel="self.tasks == oldSelf.tasks || (has(oldSelf.suspend) && oldSelf.suspend)",
        ),
        Rule(
            field="tasks",
            message="a task with `elastic: torchrun` must be the only one",
            cel="self.tasks.size() == 1"
            " || !self.tasks.exists(t, has(t.elastic) && t.elastic == 'torchrun')",
            holds=lambda s: (
                len(s.tasks) == 1 or all(t.elastic is not Elastic.TORCHRUN for t in s.tasks)
            ),
        ),
        Rule(
            field="elasticReplicas",
            message="needs exactly one task with minReplicas less than maxReplicas",
            cel=f"!has(self.elasticReplicas) || {_SCALABLE}.size() == 1",
            holds=lambda s: s.elastic_replicas is None or sum(t.scalable for t in s.tasks) == 1,
        ),
        Rule(
            field="elasticReplicas",
            message="must be between minReplicas and maxReplicas of the scalable task",
            cel=f"!has(self.elasticReplicas) || {_SCALABLE}.all(t, "
            f"{_LEAST} <= self.elasticReplicas && self.elasticReplicas <= {_MOST})",
            holds=lambda s: all(t.least <= s.count(t) <= t.most for t in s.tasks),
        ),
        Rule(
            field="runAs",
            message="does not apply on a cluster: use podTemplate.spec.securityContext of the task",
            cel="!has(self.runAs) || self.runAs == ''",
        ),
        Rule(
            field="capabilities",
            message="does not apply on a cluster: use the securityContext of a container in "
            "podTemplate.spec",
            cel="!has(self.capabilities) || self.capabilities.size() == 0",
        ),
    )

    def count(self, task: TaskSpec) -> int:
        """Return the number of replicas of a task at the start."""
        override = self.elastic_replicas
        return override if override is not None and task.scalable else task.replicas

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
    """Metadata of the job. All fields but the name apply on a cluster only."""

    name: Name
    """Name of the job, unique in its namespace."""
    namespace: str = ""
    """Namespace of a cluster."""
    labels: dict[str, str] = {}
    """Labels, for selectors."""
    annotations: dict[str, str] = {}
    """Annotations."""


class TrainingJob(Manifest):
    """A training job: what to run, how to read its progress, and how to scale and migrate it."""

    api_version: Literal["headway.dev/v1alpha1"] = "headway.dev/v1alpha1"
    """Version of this schema."""
    kind: Literal["TrainingJob"] = "TrainingJob"
    """Kind of the object."""
    metadata: Metadata
    """Metadata of the job."""
    spec: TrainingJobSpec = TrainingJobSpec()
    """Specification of the job."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            field="metadata.name",
            message="must be letters, digits and '-', starting with a letter, on a cluster",
            cel="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        ),
        Rule(
            field="metadata.name",
            message="must have at most 56 characters with the name of a task, on a cluster",
            cel="self.spec.tasks.all(t, self.metadata.name.size() + t.name.size() <= 56)",
        ),
    )
