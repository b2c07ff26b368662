"""Memory: which replicas may start, and how much each may hold, so that no other is evicted."""

from collections.abc import Iterable
from typing import Protocol

from headway.core.model.job import Task
from headway.core.model.node import Node
from headway.core.model.units import Bytes, NodeId

SPARE: Bytes = 256 * 2.0**20
"""What a replica that requests no memory must find free."""


class Holder(Protocol):
    """A running replica."""

    @property
    def node(self) -> NodeId: ...
    @property
    def requested_memory(self) -> Bytes: ...
    @property
    def held_memory(self) -> Bytes: ...


def refusal(tasks: Iterable[Task], running: Iterable[Holder], available: Bytes) -> str:
    """Why these may not start now. Memory that others requested and do not hold yet is reserved."""
    reserved = sum(max(0.0, r.requested_memory - r.held_memory) for r in running)
    free = max(0.0, available - reserved)
    needed = sum(t.request.memory or SPARE for t in tasks)
    if needed <= free:
        return ""
    return f"not enough memory: needs {needed / 2**20:.0f} MiB, {free / 2**20:.0f} MiB are free"


def memory_limit(declared: Bytes | None, node: Node, running: Iterable[Holder]) -> Bytes:
    """What it declares; else what is left of the node when all others hold their requests."""
    others = sum(r.requested_memory for r in running if r.node == node.id)
    return declared or max(SPARE, node.capacity.memory - others)
