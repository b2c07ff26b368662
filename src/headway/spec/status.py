"""What has become of a job, as its custom resource tells it. Headway writes it; people read it."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from headway.core.model.job import Phase
from headway.spec.base_model import Manifest

Word = Annotated[str, Field(pattern=r"^[A-Za-z]([A-Za-z0-9]*[A-Za-z0-9])?$", max_length=128)]
"""As an API wants its types and reasons: one word, in capitals and small letters."""


class Condition(Manifest):
    """One thing that holds of the job, does not, or cannot be known."""

    type: Word
    """What: Accepted (it can be run here), Placed (each replica has a node), Running, Succeeded."""
    status: Literal["True", "False", "Unknown"]
    """Does it hold?"""
    reason: Word
    """Why, in a word."""
    message: Annotated[str, Field(max_length=32768)] = ""
    """Why, in a sentence, and what to do about it."""
    last_transition_time: datetime
    """Since when the status is this one."""
    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The generation of the job that this was said of."""


class TrainingJobStatus(Manifest):
    """What has become of it. Headway alone writes here."""

    phase: Phase | None = None
    """How far it is."""
    reason: str = ""
    """Why it is so far and no further, in a sentence."""
    conditions: tuple[Condition, ...] = ()
    """What holds of it, one entry each type."""
    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The generation of the job that this status is about."""
    enqueue_time: datetime | None = None
    """When Headway took it in."""
    start_time: datetime | None = None
    """When it first ran."""
    finish_time: datetime | None = None
    """When it ended."""
    placement: dict[str, str] = {}
    """Where each replica goes, by replica (`worker-0`). Written before the first of them is
    bound."""
    epoch: Annotated[int, Field(ge=0)] | None = None
    """How often it has been placed; part of the names of its pods."""
    failures: Annotated[int, Field(ge=0)] | None = None
    """How often it has failed; at most backoffLimit of them are made good."""
    replicas: Annotated[int, Field(ge=0)] | None = None
    """How many replicas of the elastic task, or in all, there are."""
    selector: str = ""
    """Its pods, as a label selector; for `kubectl scale` and autoscalers."""
