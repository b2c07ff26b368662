"""What a job does, for the simulator, and what is known of it in advance."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from headway.spec.base_model import Strict
from headway.spec.quantity import Memory, Number, Positive, Time, parse_quantity, parse_time
from headway.spec.speed import SpeedSpec

Part = Annotated[float, Field(gt=0.2, lt=1)]
Steps = Annotated[float, Field(ge=1, le=1e15)]


class CurveSpec(Strict):
    """The metric over the steps of a job."""

    shape: Literal["inverse", "exponential"] = "inverse"
    """How it falls: by 1 / step, or exponentially."""
    at20: Part = 0.8
    """Part of the whole change that is reached after 20 % of the steps."""
    power: Annotated[float, Field(gt=0, le=10)] = 1.0
    """Exponent of the `exponential` shape."""
    start: Number = 1.0
    """First value."""
    end: Number = 0.1
    """Last value."""
    noise: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Standard deviation of a value, as a fraction of it."""
    file: str = ""
    """CSV file of measured (step, value), instead of a shape."""

    @model_validator(mode="after")
    def _changes(self) -> Self:
        if not self.file and self.start == self.end:
            raise ValueError("start and end must differ")
        return self


class Profile(Strict):
    """What a job does, for the simulator."""

    work: Positive
    """Total work in core-seconds on a core of speed 1."""
    demand: Positive = 1.0
    """Maximum number of cores that one replica can use."""
    steps: Steps = 1000
    """Number of steps."""
    speed: SpeedSpec | None = None
    """Speed of a distributed job; `work` then defaults to the work of all steps."""
    curve: CurveSpec = CurveSpec()
    """The metric over its steps."""
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
