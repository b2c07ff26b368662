"""Memory: who may start, and how much it may take, so that nobody is pushed out."""

from collections.abc import Iterable

from headway.backend.local.enforcement import procfs
from headway.backend.state import Member
from headway.core.model.job import Task
from headway.core.model.node import Node
from headway.core.model.units import Bytes

SPARE: Bytes = 256 * 2.0**20
"""What a job of unknown size must find free."""


def refusal(tasks: Iterable[Task], running: Iterable[Member]) -> str:
    """Why these may not start now; what others were promised and do not hold yet is spoken for."""
    owed = sum(max(0.0, promised(m) - m.last.memory) for m in running)
    free = procfs.available_memory() - owed
    needs = sum(t.request.memory or SPARE for t in tasks)
    if needs <= free:
        return ""
    return f"it needs {needs / 2**20:.0f} MiB, and {max(0.0, free) / 2**20:.0f} are free"


def ceiling(m: Member, node: Node, running: Iterable[Member]) -> Bytes:
    """What it declares; else what is left of the node when all others hold theirs."""
    own = m.work.job.commands[m.task].memory
    others = sum(promised(x) for x in running if x.node == m.node)
    return own or max(SPARE, node.capacity.memory - others)


def promised(m: Member) -> Bytes:
    return m.work.spec.task(m.task).request.memory
