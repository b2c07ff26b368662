"""CPU used by processes outside Headway in a run: over time, on average, and in words."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from headway.core.model.units import Cores, NodeId, Seconds

Change = tuple[Seconds, NodeId, Cores]
"""Time, node, and the cores of this node that others use from this time on."""


def node_changes(cycles: Iterable[dict[str, Any]]) -> Iterator[Change]:
    """Yield the changes in the cycles of a journal."""
    return ((c["at_s"], n.id, n.foreign) for c in cycles for n in c["seen"].nodes)


def foreign_line(changes: Iterable[Change]) -> list[tuple[Seconds, Cores]]:
    """Return the cores of all nodes as a step function of time.

    >>> foreign_line([(0.0, NodeId("a"), 0.0), (5.0, NodeId("b"), 0.5), (9.0, NodeId("a"), 1.0)])
    [(0.0, 0.0), (5.0, 0.5), (9.0, 1.5)]
    """
    now: dict[NodeId, Cores] = {}
    line: list[tuple[Seconds, Cores]] = []
    total = 0.0
    for at, node, cores in changes:
        total += cores - now.get(node, 0.0)
        now[node] = cores
        line.append((at, max(0.0, total)))
    return line


def mean_until(line: Sequence[tuple[Seconds, Cores]], end: Seconds) -> Cores:
    """Return the mean from time 0 to the end.

    >>> mean_until([(5.0, 0.5), (9.0, 1.5)], 10.0)
    0.35
    """
    points = [(min(at, end), cores) for at, cores in line]
    return sum(c * (b - a) for (a, c), (b, _) in pairwise([*points, (end, 0.0)])) / (end or 1.0)


def describe_foreign(foreign: Cores, cores: Cores) -> str:
    """Describe the foreign use in words.

    >>> describe_foreign(1.31, 2.0)
    '1.3 of 2 cores used by others'
    """
    return f"{foreign:.1f} of {cores:g} cores used by others"
