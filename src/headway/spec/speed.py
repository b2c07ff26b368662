"""The speed model of a distributed job, as a user writes it."""

from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from headway.core.estimate.step_rate import CHIEF, SERVER, Speed
from headway.spec.base_model import Strict
from headway.spec.quantity import Factor, Memory, Positive, Time


class SpeedSpec(Strict):
    """How the speed of a distributed job depends on its workers."""

    kind: Literal["sync", "async", "ring"]
    """sync or async: parameter servers; ring: ring all-reduce."""
    compute: Positive
    """Core-seconds of a step's whole batch."""
    fixed: Annotated[float, Field(ge=0, le=1e15)] = 0.0
    """Core-seconds per worker and step that do not depend on its part of the batch."""
    size: Memory | None = None
    """Bytes of the model."""
    bandwidth: Annotated[Memory, Field(ge=1)] | None = None
    """Bytes per second within a node."""
    transfer_s: Time | None = None
    """Time of a transfer of the model, instead of size and bandwidth."""
    per_worker_s: Time = 0.0
    """Overhead of a step for every worker."""
    per_server_s: Time = 0.0
    """Overhead of a step for every parameter server."""
    latency_s: Time = 0.0
    """Latency of a round of a ring with several workers."""
    penalty: Factor = 1.0
    """Factor on the time of transfers between nodes."""
    rack_penalty: Factor = 1.0
    """Further factor between racks."""
    error: Annotated[float, Field(ge=0, le=1e6)] | None = None
    """Mean relative error of a measured model, whose rates are each predicted from the others."""

    @model_validator(mode="after")
    def _one_transfer_time(self) -> Self:
        if (self.size is None) != (self.bandwidth is None):
            raise ValueError("give both size and bandwidth")
        if self.size is not None and self.transfer_s is not None:
            raise ValueError("give size and bandwidth, or transfer_s, not both")
        return self

    @property
    def work(self) -> float:
        """Core-seconds per step."""
        return self.compute + self.fixed

    def check_tasks(self, tasks: Sequence[str], job: str) -> None:
        """Raise an error if the job lacks a task that this kind of training needs."""
        workers = [t for t in tasks if t not in (SERVER, CHIEF)]
        if self.kind != "ring" and SERVER not in tasks:
            raise ValueError(
                f"job {job!r} trains with parameter servers (kind: {self.kind}) but has no task "
                f"called {SERVER!r}"
            )
        if self.kind == "ring" and SERVER in tasks:
            raise ValueError(f"job {job!r} trains in a ring, which has no task {SERVER!r}")
        if not workers and CHIEF not in tasks:
            raise ValueError(f"job {job!r} has no workers: add a task called 'worker'")

    def to_core(self) -> Speed:
        transfer = self.transfer_s or 0.0
        if self.size is not None and self.bandwidth is not None:
            transfer = self.size / self.bandwidth
        return Speed(
            kind=self.kind,
            compute=self.compute,
            fixed=self.fixed,
            transfer=transfer,
            per_worker=self.per_worker_s,
            per_server=self.per_server_s,
            latency=self.latency_s,
            penalty=self.penalty,
            rack_penalty=self.rack_penalty,
        )
