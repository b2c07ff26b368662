"""Decide which replicas may start, and their memory limits, so that no replica is evicted."""

from collections.abc import Iterable

from headway.core.model.job import Task
from headway.core.model.node import Node
from headway.core.model.units import Bytes

SPARE: Bytes = 256 * 2.0**20
"""Free memory that a replica without a memory request needs to start."""


def refusal(tasks: Iterable[Task], running: Iterable[tuple[Bytes, Bytes]], available: Bytes) -> str:
    """Return why replicas of these tasks may not start now; "": they may.

    `running`: requested and held memory of each running replica. Requested memory that a replica
    does not hold yet is reserved.
    """
    reserved = sum(max(0.0, requested - held) for requested, held in running)
    free = max(0.0, available - reserved)
    needed = sum(t.request.memory or SPARE for t in tasks)
    if needed <= free:
        return ""
    return f"not enough memory: needs {needed / 2**20:.0f} MiB, {free / 2**20:.0f} MiB are free"


def memory_limit(declared: Bytes | None, node: Node, others: Iterable[Bytes]) -> Bytes:
    """Return the declared limit, else the memory of the node without the requests of the others."""
    return declared or max(SPARE, node.capacity.memory - sum(others))
