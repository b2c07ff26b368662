"""The status of a TrainingJob, which Headway writes."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from headway.spec.base_model import Manifest

Word = Annotated[str, Field(pattern=r"^[A-Za-z]([A-Za-z0-9]*[A-Za-z0-9])?$", max_length=128)]
"""CamelCase, as the Kubernetes API conventions ask for types and reasons."""
PhaseName = Literal[
    "Pending", "Starting", "Running", "Migrating", "Suspending", "Paused", "Backoff", "Stopping",
    "Succeeded", "Failed", "Cancelled",
]  # fmt: skip
"""`headway.core.model.job.Phase` in CamelCase."""


class Condition(Manifest):
    """One aspect of the job that is true, false or unknown."""

    type: Word
    """Accepted (it can run here), Suspended, Placed (each replica has a node), Running, Complete
    (it has succeeded), or Failed (it has failed or was cancelled)."""
    status: Literal["True", "False", "Unknown"]
    """Whether it is true."""
    reason: Word
    """Why, in one word."""
    message: Annotated[str, Field(max_length=32768)] = ""
    """Why, and what to do about it."""
    last_transition_time: datetime
    """Time of the last change of the status."""
    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """Generation of the job that it describes."""


class Progress(Manifest):
    """Last reported progress of the job, written every ten seconds if it has changed."""

    done: str = ""
    """Progress: a percentage if the number of steps is known, else the step."""
    step: float | None = None
    """The last step."""
    total_steps: float | None = None
    """The number of steps, as declared or as the job has announced."""
    metric: str = ""
    """Name of the metric."""
    value: str = ""
    """The last value of the metric."""
    remaining: str = ""
    """Estimated time to the last step, by the speed of the last one or two minutes."""
    cpu: str = ""
    """CPU that its chief uses."""
    memory: str = ""
    """Memory that its chief uses, without the page cache."""
    update_time: datetime | None = None
    """Time of the last report."""


class TrainingJobStatus(Manifest):
    """The observed state. Only Headway writes it."""

    phase: PhaseName | None = None
    """Phase of the job."""
    reason: str = ""
    """Why the job is in this phase."""
    conditions: tuple[Condition, ...] = ()
    """Conditions, one of each type."""
    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The generation of the job that this status describes."""
    enqueue_time: datetime | None = None
    """Time at which Headway accepted the job."""
    start_time: datetime | None = None
    """Time of the first start."""
    finish_time: datetime | None = None
    """Time of the end."""
    progress: Progress | None = None
    """Last reported progress."""
    placement: dict[str, str] = {}
    """The node of each replica, by replica (`worker-0`). Written before the first pod is
    created."""
    nodes: str = ""
    """The nodes of its replicas, each once."""
    attempt: Annotated[int, Field(ge=0)] | None = None
    """Number of its last start; part of the names of its pods."""
    failures: Annotated[int, Field(ge=0)] | None = None
    """Number of failures. The job is retried up to backoffLimit times."""
    replicas: Annotated[int, Field(ge=0)] | None = None
    """Number of replicas of the scalable task, or of all tasks if none is scalable."""
    selector: str = ""
    """Label selector of its pods, for `kubectl scale` and autoscalers."""
    state: str = ""
    """State for the next leader. Its format is not part of the API."""
