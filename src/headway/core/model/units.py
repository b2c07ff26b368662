"""Types of names and amounts. CPU is in cores, work in core-seconds on a core of speed 1, memory in
bytes, time in seconds.
"""

from typing import NewType, TypeAlias

from headway.core.model.serialization import record

JobId = NewType("JobId", str)
NodeId = NewType("NodeId", str)


class ReplicaId(str):
    """Job, task and index of a replica, for example "vae/worker-0".

    It is a string, because the hash of a string is cached, comparison runs in C, and JSON needs no
    conversion. Only this class splits it, from the right: the id of a job may contain "/".

    >>> name = ReplicaId.of(JobId("team/vae"), "worker", 3)
    >>> name, name.job, name.task, name.index, name.name
    ('team/vae/worker-3', 'team/vae', 'worker', 3, 'worker-3')
    """

    __slots__ = ()

    @classmethod
    def of(cls, job: JobId, task: str, index: int) -> "ReplicaId":
        return cls(f"{job}/{task}-{index}")

    @classmethod
    def named(cls, job: JobId, name: str) -> "ReplicaId":
        """Return the id of a replica. `name`: task and index within the job."""
        return cls(f"{job}/{name}")

    @property
    def job(self) -> JobId:
        return JobId(self.rpartition("/")[0])

    @property
    def name(self) -> str:
        """Task and index within the job: "worker-0"."""
        return self.rpartition("/")[2]

    @property
    def task(self) -> str:
        return self.rpartition("/")[2].rpartition("-")[0]

    @property
    def index(self) -> int:  # type: ignore[override]
        return int(self.rpartition("-")[2])


Where: TypeAlias = tuple[tuple[ReplicaId, NodeId], ...]
"""A node for each replica."""
Seconds: TypeAlias = float
Cores: TypeAlias = float
CoreSeconds: TypeAlias = float
Bytes: TypeAlias = float
Share: TypeAlias = float
"""A fraction of a node, 0 to 1."""

SLACK = 1e-9
"""Tolerance for rounding when amounts are compared."""


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
        """Return whether this fits in `capacity`, of which `taken` is in use.

        >>> half = Resources(cpu=0.5)
        >>> half.fits(half, Resources(cpu=1.0)), half.fits(half, Resources(cpu=0.9))
        (True, False)
        """
        return (
            (not self.cpu or taken.cpu + self.cpu <= capacity.cpu + SLACK)
            and (not self.memory or taken.memory + self.memory <= capacity.memory + SLACK)
            and (not self.gpu or taken.gpu + self.gpu <= capacity.gpu + SLACK)
        )

    def times(self, count: int) -> "Resources":
        return Resources(cpu=self.cpu * count, memory=self.memory * count, gpu=self.gpu * count)


NOTHING = Resources()
