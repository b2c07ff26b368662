"""Memory: which replicas may start, and how much each may hold, so that no other is evicted."""

from collections.abc import Iterable

from headway.core.model.job import Task
from headway.core.model.node import Node
from headway.core.model.units import Bytes

SPARE: Bytes = 256 * 2.0**20
"""What a replica that requests no memory must find free."""


def refusal(tasks: Iterable[Task], running: Iterable[tuple[Bytes, Bytes]], available: Bytes) -> str:
    """Why these may not start now. Memory that others requested and do not hold yet is reserved.

    `running`: what each other replica has requested, and what it holds.
    """
    reserved = sum(max(0.0, requested - held) for requested, held in running)
    free = max(0.0, available - reserved)
    needed = sum(t.request.memory or SPARE for t in tasks)
    if needed <= free:
        return ""
    return f"not enough memory: needs {needed / 2**20:.0f} MiB, {free / 2**20:.0f} MiB are free"


def memory_limit(declared: Bytes | None, node: Node, others: Iterable[Bytes]) -> Bytes:
    """What it declares; else what is left of the node when all others hold their requests."""
    return declared or max(SPARE, node.capacity.memory - sum(others))
