"""The status of a job's custom resource, which Headway writes and users read."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from headway.core.model.job import Phase
from headway.spec.base_model import Manifest

Word = Annotated[str, Field(pattern=r"^[A-Za-z]([A-Za-z0-9]*[A-Za-z0-9])?$", max_length=128)]
"""A condition type or reason: one word in CamelCase."""


class Condition(Manifest):
    """A condition of the job."""

    type: Word
    """Accepted (it can run here), Placed (each replica has a node), Running, or Succeeded."""
    status: Literal["True", "False", "Unknown"]
    """Whether the condition holds."""
    reason: Word
    """Machine-readable reason, one word."""
    message: Annotated[str, Field(max_length=32768)] = ""
    """Human-readable reason, and what to do about it."""
    last_transition_time: datetime
    """Time of the last change of `status`."""
    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """Generation of the job that the condition describes."""


class TrainingJobStatus(Manifest):
    """Status of the job, written by Headway only."""

    phase: Phase | None = None
    """Phase of the job."""
    reason: str = ""
    """Reason of the phase, one sentence."""
    conditions: tuple[Condition, ...] = ()
    """Conditions, one per type."""
    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """Generation of the job that this status describes."""
    enqueue_time: datetime | None = None
    """Time when Headway accepted the job."""
    start_time: datetime | None = None
    """Time when the job first ran."""
    finish_time: datetime | None = None
    """Time when the job ended."""
    placement: dict[str, str] = {}
    """Node of each replica, by replica (`worker-0`). Written before the first replica is bound."""
    epoch: Annotated[int, Field(ge=0)] | None = None
    """Number of times the job was placed; part of the names of its pods."""
    failures: Annotated[int, Field(ge=0)] | None = None
    """Number of failures; more than backoffLimit fail the job."""
    replicas: Annotated[int, Field(ge=0)] | None = None
    """Number of replicas of the scalable task, or of all tasks if none is scalable."""
    selector: str = ""
    """Label selector of the job's pods, for `kubectl scale` and autoscalers."""
