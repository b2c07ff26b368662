"""Partition the machine into nodes."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import ceil

from headway.core.model.node import Node
from headway.core.model.units import Bytes, NodeId, Resources

MACHINE = NodeId("machine")


@dataclass(frozen=True, slots=True)
class Cut:
    """A node as a part of the machine."""

    node: Node
    cpus: tuple[int, ...] | None = None
    """CPUs of its jobs; None: all."""
    ceiling: float | None = None
    """Limit in cores, if it is less than the number of CPUs."""


def cut(nodes: tuple[Node, ...], cpus: Sequence[int], taken: Collection[int] = ()) -> list[Cut]:
    """Assign CPUs to the nodes, from the last CPU down. CPUs in `taken`, which other runs use, are
    assigned last.

    Nodes get separate CPUs where possible. With a limit alone, weights would have no effect: a
    process on an idle CPU could use up the limit.

    >>> a, b = (Node(id=NodeId(n), capacity=Resources(cpu=0.5)) for n in "ab")
    >>> [(c.cpus, c.ceiling) for c in cut((a, b), [0, 1])]
    [((1,), 0.5), ((1,), 0.5)]
    """
    down = sorted(cpus, key=lambda cpu: (cpu in taken, -cpu))
    offset, found = 0.0, []
    for node in nodes:
        cores = node.capacity.cpu
        first, last = int(offset + 1e-9), ceil(offset + cores - 1e-9)
        whole = last - first == len(down)
        inside = None if whole else tuple(sorted(down[first:last]))
        ceiling = None if abs(last - first - cores) < 1e-9 else cores
        found.append(Cut(node, inside, ceiling))
        offset += cores
    return found


def fit_nodes(
    nodes: tuple[Node, ...] | None, cores: float, memory: Bytes
) -> tuple[tuple[Node, ...], float]:
    """Fit nodes (None: one node) to this machine. Return also the factor that scales their CPU
    down.
    """
    if nodes is None:
        return (Node(id=MACHINE, capacity=Resources(cpu=cores, memory=memory)),), 1.0
    asked = sum(n.capacity.cpu for n in nodes)
    factor = min(1.0, cores / asked)
    most = memory / len(nodes)
    fitted = []
    for n in nodes:
        room = Resources(cpu=n.capacity.cpu * factor, memory=min(n.capacity.memory, most))
        fitted.append(replace(n, capacity=room))
    return tuple(fitted), factor
