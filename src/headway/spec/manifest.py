"""The manifest: one `TrainingJob` file for every backend."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from headway.core.job import Direction, Expected, JobSpec, Mode, Task
from headway.core.units import NOTHING, Resources
from headway.spec.quantity import Cpu, Memory, Time
from headway.spec.strict import Manifest

Name = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=63)]


class Metric(Manifest):
    name: str = "loss"
    direction: Literal["minimize", "maximize"] = "minimize"


class Checkpoint(Manifest):
    mode: Literal["none", "sigterm", "sdk"] = "none"
    grace_seconds: Time = 30.0


class Reports(Manifest):
    pattern: str = ""
    """A regular expression for a line of the log, with the group `value` and perhaps `step` and
    `total`."""


class Amounts(Manifest):
    cpu: Cpu = 0.0
    memory: Memory = 0.0
    gpu: Annotated[float, Field(ge=0)] = 0.0


class Limits(Manifest):
    cpu: Cpu | None = None
    memory: Memory | None = None


class ResourceSpec(Manifest):
    requests: Amounts = Amounts()
    limits: Limits = Limits()


class TaskSpec(Manifest):
    name: Name = "main"
    replicas: Annotated[int, Field(ge=1)] = 1
    min_replicas: Annotated[int, Field(ge=1)] | None = None
    max_replicas: Annotated[int, Field(ge=1)] | None = None
    command: tuple[str, ...] = ()
    image: str = ""
    resources: ResourceSpec = ResourceSpec()
    env: dict[str, str] = {}
    working_dir: str = ""

    @model_validator(mode="after")
    def _bounds(self) -> Self:
        least, most = self.least, self.most
        if least > most and self.min_replicas and self.max_replicas:
            raise ValueError(f"minReplicas {least} is above maxReplicas {most}")
        if not least <= self.replicas <= most:
            raise ValueError(
                f"replicas {self.replicas} lie outside minReplicas {least} to maxReplicas {most}"
            )
        return self

    @property
    def least(self) -> int:
        return self.replicas if self.min_replicas is None else self.min_replicas

    @property
    def most(self) -> int:
        return self.replicas if self.max_replicas is None else self.max_replicas

    def to_core(self) -> Task:
        asked = self.resources.requests
        request = Resources(cpu=asked.cpu, memory=asked.memory, gpu=asked.gpu)
        return Task(
            name=self.name,
            replicas=self.replicas,
            least=self.least,
            most=self.most,
            request=NOTHING if request == NOTHING else request,
            limit=self.resources.limits.cpu,
        )


class TrainingJobSpec(Manifest):
    metric: Metric = Metric()
    total_steps: Annotated[float, Field(gt=0)] | None = None
    checkpoint: Checkpoint = Checkpoint()
    reports: Reports = Reports()
    priority: Annotated[int, Field(ge=-10, le=10)] = 0
    tasks: Annotated[tuple[TaskSpec, ...], Field(min_length=1)] = (TaskSpec(),)
    backoff_limit: Annotated[int, Field(ge=0)] = 3

    @model_validator(mode="after")
    def _one_name_each(self) -> Self:
        names = [t.name for t in self.tasks]
        double = next((n for n in names if names.count(n) > 1), None)
        if double:
            raise ValueError(f"two tasks are called {double!r}")
        return self

    def to_core(self, *, kind: str, expected: Expected | None = None) -> JobSpec:
        return JobSpec(
            tasks=tuple(t.to_core() for t in self.tasks),
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
    name: Name
    labels: dict[str, str] = {}


class TrainingJob(Manifest):
    api_version: Literal["headway.dev/v1alpha1"] = "headway.dev/v1alpha1"
    kind: Literal["TrainingJob"] = "TrainingJob"
    metadata: Metadata
    spec: TrainingJobSpec = TrainingJobSpec()

    @model_validator(mode="before")
    @classmethod
    def _not_empty(cls, data: Any) -> Any:
        if data is None:
            raise ValueError("the file is empty")
        return data
