"""From points to SVG paths: filter, downsample to the pixels, join."""

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from operator import itemgetter

from headway.report.charts.elements import Point, coord

MANY = 2000


def finite(points: Iterable[Point]) -> list[Point]:
    """Return the finite points in order of x."""
    kept = [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]
    return sorted(kept, key=itemgetter(0))


def downsample(points: Sequence[Point], columns: int) -> list[Point]:
    """Return the first, least, greatest and last point of each column of pixels.

    The first and the last preserve the joints to the neighbouring columns.
    """
    if len(points) <= MANY:
        return list(points)
    low, high = points[0][0], points[-1][0]
    grouped: dict[int, list[int]] = {}
    for i, (x, _) in enumerate(points):
        column = int((x - low) / (high - low) * columns) if high > low else 0
        grouped.setdefault(column, []).append(i)
    kept: set[int] = set()
    for members in grouped.values():
        least = min(members, key=lambda i: points[i][1])
        greatest = max(members, key=lambda i: points[i][1])
        kept |= {members[0], least, greatest, members[-1]}
    return [points[i] for i in sorted(kept)]


def corners(points: Sequence[Point], *, step: bool) -> list[Point]:
    """Return the vertices of a line; with ``step`` a value holds until the next x."""
    if not step:
        return list(points)
    found: list[Point] = []
    for x, y in points:
        if found:
            found.append((x, found[-1][1]))
        found.append((x, y))
    return found


def path(vertices: Iterable[Point], *, closed: bool = False) -> str:
    """Return SVG path data through the vertices; H and V shorten straight segments."""
    parts: list[str] = []
    before = ("", "")
    for vertex in vertices:
        here = (coord(vertex[0]), coord(vertex[1]))
        if not parts:
            parts.append(f"M{here[0]} {here[1]}")
        elif here[1] == before[1] and here != before:
            parts.append(f"H{here[0]}")
        elif here[0] == before[0] and here != before:
            parts.append(f"V{here[1]}")
        elif here != before:
            parts.append(f"L{here[0]} {here[1]}")
        before = here
    return "".join(parts) + ("Z" if closed else "")


def value_at(points: Sequence[Point], x: float, *, step: bool) -> float | None:
    """Return the value of a curve at x; None outside its points."""
    after = bisect_right(points, x, key=itemgetter(0))
    if after == 0 or (after == len(points) and x > points[-1][0]):
        return None
    x0, y0 = points[after - 1]
    if step or x == x0:
        return y0
    x1, y1 = points[after]
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0)
