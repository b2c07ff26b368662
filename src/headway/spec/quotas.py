"""Quotas of the users of a machine's server (`headway serve --system --quotas FILE`)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field

from headway.core.model.job import JobSpec
from headway.core.model.units import Bytes, Cores
from headway.spec.base_model import Manifest
from headway.spec.bounded_file import read_text
from headway.spec.load import parse
from headway.spec.quantity import Memory

Count = Annotated[int, Field(ge=0, le=10**9)]


class Quota(Manifest):
    """Quota of one user."""

    running_jobs: Count = 32
    """Maximum number of jobs that run or are ready to run. Other jobs wait."""
    queued_jobs: Count = 1000
    """Maximum number of unfinished jobs."""
    cores: Annotated[float, Field(gt=0)] | None = None
    """Maximum sum of the CPU requests of running jobs; None: the machine."""
    memory: Memory | None = None
    """Maximum sum of the memory requests of running jobs; None: the machine."""
    submissions_per_minute: Count = 600
    priority: int = 0
    """Maximum priority of a job."""


class Quotas(Manifest):
    default: Quota = Quota()
    users: Mapping[str, Quota] = Field(default_factory=dict)
    """Quotas by name or uid of the user."""

    def of(self, uid: int, name: str) -> Quota:
        return self.users.get(name) or self.users.get(str(uid)) or self.default


def read_quotas(path: Path) -> Quotas:
    return parse(read_text(path), Quotas, where=str(path))


def requested(spec: JobSpec) -> tuple[Cores, Bytes]:
    """Return the requests of all replicas of a job."""
    cpu = sum(task.replicas * task.request.cpu for task in spec.tasks)
    return cpu, sum(task.replicas * task.request.memory for task in spec.tasks)


def too_large(spec: JobSpec, quota: Quota) -> str:
    """Return why a job can never fit into the quota of its user; "": it can."""
    cores, memory = requested(spec)
    if quota.cores is not None and cores > quota.cores:
        return f"it requests {cores:g} cores, and the quota of its user is {quota.cores:g}"
    if quota.memory is not None and memory > quota.memory:
        return (
            f"it requests {memory / 2**30:.3g} GiB of memory, and the quota of its user is "
            f"{quota.memory / 2**30:.3g} GiB"
        )
    if spec.priority > quota.priority:
        return f"its priority is {spec.priority}, and its user may use at most {quota.priority}"
    return ""
