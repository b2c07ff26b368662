"""How fast a distributed job is, as a user writes it."""

from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from headway.core.estimate.step_rate import CHIEF, SERVER, Speed
from headway.spec.base_model import Strict
from headway.spec.quantity import Memory, Positive, Time

Factor = Annotated[float, Field(ge=1, allow_inf_nan=False)]


class SpeedSpec(Strict):
    kind: Literal["sync", "async", "ring"]
    """Parameter servers and workers in step, or each at its own pace; or a ring all-reduce."""
    compute: Positive
    """Core-seconds for the whole batch of a step."""
    fixed: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Core-seconds of every worker in every step, however small its part of the batch."""
    size: Memory | None = None
    bandwidth: Annotated[Memory, Field(gt=0)] | None = None
    """Of the model, and bytes a second within a node; or what it takes to send it, `transfer_s`."""
    transfer_s: Time | None = None
    per_worker_s: Time = 0.0
    per_server_s: Time = 0.0
    latency_s: Time = 0.0
    penalty: Factor = 1.0
    """Transfers between nodes take so many times as long."""
    rack_penalty: Factor = 1.0

    @model_validator(mode="after")
    def _one_way_to_send(self) -> Self:
        if (self.size is None) != (self.bandwidth is None):
            raise ValueError("give both size and bandwidth")
        if self.size is not None and self.transfer_s is not None:
            raise ValueError("give size and bandwidth, or transfer_s, not both")
        return self

    @property
    def work(self) -> float:
        """Core-seconds of a step."""
        return self.compute + self.fixed

    def suits(self, tasks: Sequence[str], job: str) -> None:
        """Has the job the tasks that this kind of training needs?"""
        workers = [t for t in tasks if t not in (SERVER, CHIEF)]
        if self.kind != "ring" and SERVER not in tasks:
            raise ValueError(
                f"job {job!r} trains with parameter servers (kind: {self.kind}) and has no task "
                f"called {SERVER!r}"
            )
        if self.kind == "ring" and SERVER in tasks:
            raise ValueError(f"job {job!r} is a ring, and has no use for its task {SERVER!r}")
        if not workers and CHIEF not in tasks:
            raise ValueError(f"job {job!r} has nobody to do the work: add a task called 'worker'")

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
