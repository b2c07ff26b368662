"""Names and amounts. CPU is cores, work core-seconds on a core of speed 1, memory bytes,
time seconds.
"""

from typing import NewType, TypeAlias

from headway.core.model.serialization import record

JobId = NewType("JobId", str)
ReplicaId = NewType("ReplicaId", str)
NodeId = NewType("NodeId", str)

Seconds: TypeAlias = float
Cores: TypeAlias = float
CoreSeconds: TypeAlias = float
Bytes: TypeAlias = float
Share: TypeAlias = float
"""A fraction of a node, 0 to 1."""

SLACK = 1e-9
"""What rounding may cost when amounts are compared."""


@record
class Resources:
    cpu: Cores = 0.0
    memory: Bytes = 0.0
    gpu: float = 0.0

    def __add__(self, other: "Resources") -> "Resources":
        return Resources(
            cpu=self.cpu + other.cpu, memory=self.memory + other.memory, gpu=self.gpu + other.gpu
        )

    def __sub__(self, other: "Resources") -> "Resources":
        return Resources(
            cpu=self.cpu - other.cpu, memory=self.memory - other.memory, gpu=self.gpu - other.gpu
        )

    def fits(self, taken: "Resources", capacity: "Resources") -> bool:
        """Is there room for this where `taken` of `capacity` is spoken for?

        >>> half = Resources(cpu=0.5)
        >>> half.fits(half, Resources(cpu=1.0)), half.fits(half, Resources(cpu=0.9))
        (True, False)
        """
        return (
            (not self.cpu or taken.cpu + self.cpu <= capacity.cpu + SLACK)
            and (not self.memory or taken.memory + self.memory <= capacity.memory + SLACK)
            and (not self.gpu or taken.gpu + self.gpu <= capacity.gpu + SLACK)
        )


NOTHING = Resources()
