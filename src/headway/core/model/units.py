"""Names and amounts. CPU is cores, work core-seconds on a core of speed 1, memory bytes,
time seconds.
"""

from typing import NewType, TypeAlias

from headway.core.model.serialization import record

JobId = NewType("JobId", str)
NodeId = NewType("NodeId", str)


class ReplicaId(str):
    """Of a replica: its job, the task in it and its index there. "vae/worker-0".

    It is a string so that its hash is cached, it is compared in C, and it goes into JSON as it is.
    It is taken apart here and nowhere else, from the right: a job's id may contain "/".

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
        """`name` is that within the job: task and index."""
        return cls(f"{job}/{name}")

    @property
    def job(self) -> JobId:
        return JobId(self.rpartition("/")[0])

    @property
    def name(self) -> str:
        """Within its job: "worker-0"."""
        return self.rpartition("/")[2]

    @property
    def task(self) -> str:
        return self.rpartition("/")[2].rpartition("-")[0]

    @property
    def index(self) -> int:  # type: ignore[override]
        return int(self.rpartition("-")[2])


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
