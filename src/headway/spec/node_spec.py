"""The nodes of a workload, as a user writes them."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from headway.spec.base_model import Strict
from headway.spec.quantity import Count, Cpu, Gpus, Memory, Positive, Time

NODE_NAME = r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"
NodeName = Annotated[str, Field(pattern=NODE_NAME, max_length=63)]
"""Part of the names of files and cgroups. Empty: a default."""
Fraction = Annotated[float, Field(ge=0, le=1)]


class ForeignStep(Strict):
    """A foreign load that begins at a time."""

    at: Time
    """Time at which the load begins. It lasts until the next step."""
    cpu: Annotated[Cpu, Field(ge=0)]
    """Cores that it uses."""


class ForeignDistribution(Strict):
    """A part of the node between these bounds, drawn again at each interval."""

    between: tuple[Fraction, Fraction]
    """Minimum and maximum."""
    every_s: Annotated[Time, Field(gt=0)] = 30.0
    """Length of the interval."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.between[0] > self.between[1]:
            raise ValueError("between must be [least, most]")
        return self


class NodeSpec(Strict):
    """A node: a machine, or a part of one."""

    name: NodeName = ""
    """Unique; `node-0`, `node-1` and so on by default."""
    cpu: Annotated[Cpu, Field(ge=1e-6)] = 1.0
    """Cores."""
    memory: Memory = 64 * 2.0**30
    """Memory; 64Gi by default."""
    gpu: Gpus = 0.0
    """Number of GPUs, for the simulator."""
    speed: Positive = 1.0
    """For the simulator: speed of a core."""
    rack: str = ""
    """For the simulator: transfers between racks are slower (`rack_penalty`)."""
    images: dict[str, Memory] = {}
    """For the simulator: container images on the node, and their sizes."""
    engine: str = ""
    """URL of the Docker engine of this node: unix:///… or tcp://…"""
    foreign: ForeignDistribution | tuple[ForeignStep, ...] = ()
    """For the simulator: CPU that processes outside Headway use."""
    count: Count = 1
    """Number of such nodes, called NAME-0, NAME-1 and so on."""
