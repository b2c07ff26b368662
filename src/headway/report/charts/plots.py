"""Charts as SVG: lines, stacked areas and scatter plots; bar and Gantt charts are exported too.

A chart is a string for an HTML page with ``STYLE``, or for a file by ``standalone``. The same input
gives the same bytes.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from headway.report.charts.axes import Key, Plane, chart, empty_chart, extent, key, plane
from headway.report.charts.bars import bars
from headway.report.charts.curves import MANY, Point, corners, downsample, finite, path, value_at
from headway.report.charts.gantt import Span, gantt
from headway.report.charts.labels import coord, escape, number, text_element, text_width
from headway.report.charts.style import LIGHT, STYLE, colour, rules

__all__ = [
    "STYLE",
    "Mark",
    "Series",
    "Span",
    "bars",
    "gantt",
    "lines",
    "scatter",
    "stack",
    "standalone",
]

_STRIPS = 90
_MOST_VALUES = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A named series of (x, y) points."""

    name: str
    points: Sequence[Point]
    colour: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A small labelled dot."""

    x: float
    y: float
    text: str


def lines(  # noqa: PLR0913 - options of a chart
    series: Sequence[Series],
    *,
    x: str,
    y: str,
    title: str = "",
    step: bool = False,
    width: int = 760,
    height: int = 300,
    marks: Sequence[Mark] = (),
) -> str:
    """Return a line chart; with ``step`` a value holds until the next point."""
    clean = _clean(series)
    shown = [m for m in marks if finite([(m.x, m.y)])]
    points = [p for s in clean for p in s.points] + [(m.x, m.y) for m in shown]
    if not points:
        return empty_chart(title, width)
    on = plane(
        title=title,
        entries=_entries(clean, "line"),
        names=(x, y),
        xs=extent(at for at, _ in points),
        ys=extent((v for _, v in points), zero=True),
        width=width,
        height=height,
    )
    parts = [_line(on, s, step=step) for s in clean]
    parts += [*_strips(on, x, clean, step=step), *_marks(on, shown)]
    return chart(on.area, parts, title or f"{y} over {x}")


def stack(
    series: Sequence[Series],
    *,
    x: str,
    y: str,
    title: str = "",
    width: int = 760,
    height: int = 300,
    capacity: float | None = None,
) -> str:
    """Return step functions as stacked areas; the last values hold to the end."""
    clean = _clean(series)
    if not clean:
        return empty_chart(title, width)
    xs = _breaks(clean, width)
    layers = _layers(clean, xs)
    top = max(*(high for _, high in layers[-1]), capacity or 0.0)
    on = plane(
        title=title,
        entries=_entries(clean, "box"),
        names=(x, y),
        xs=extent(xs),
        ys=extent([top], zero=True),
        width=width,
        height=height,
    )
    parts = [_area(on, s, xs, layer) for s, layer in zip(clean, layers, strict=True)]
    held = [replace(s, points=[*s.points, (xs[-1], s.points[-1][1])]) for s in clean]
    parts += _strips(on, x, held, step=True, zeros=False)
    if capacity is not None and math.isfinite(capacity):
        parts += _limit(on, capacity)
    return chart(on.area, parts, title or f"{y} over {x}")


def scatter(
    series: Sequence[Series],
    *,
    x: str,
    y: str,
    title: str = "",
    diagonal: bool = False,
    width: int = 760,
    height: int = 360,
) -> str:
    """Return a scatter plot; with ``diagonal`` both axes have one range, and x = y is drawn."""
    clean = _clean(series)
    if not clean:
        return empty_chart(title, width)
    xs = extent(at for s in clean for at, _ in s.points)
    ys = extent(v for s in clean for _, v in s.points)
    if diagonal:
        xs = ys = min(xs[0], ys[0]), max(xs[1], ys[1])
    pad = (xs[1] - xs[0]) * 0.03
    on = plane(
        title=title,
        entries=_entries(clean, "dot"),
        names=(x, y),
        xs=(xs[0] - pad, xs[1] + pad),
        ys=ys,
        width=width,
        height=height,
    )
    parts = []
    if diagonal:
        ends = [on.at(v, v) for v in (max(on.x.low, on.y.low), min(on.x.high, on.y.high))]
        parts.append(f'<path class="limit" d="{path(ends)}"/>')
    parts += [_dot(on, s, at, (x, y)) for s in clean for at in _distinct(on, s.points)]
    return chart(on.area, parts, title or f"{y} against {x}")


def standalone(svg: str) -> str:
    """Return the chart as a complete SVG file with light colours and a background."""
    used = {int(i) for i in re.findall(r'class="[^"]*\b[fso](\d+)\b', svg)}
    style = re.sub(r"var\(--(\w+)\)", lambda found: LIGHT[found[1]], rules(sorted(used)))
    opening, rest = svg.split(">", 1)
    wide, high = (float(v) for v in re.findall(r'viewBox="0 0 (\S+) (\S+)"', opening)[0])
    edge = 16
    box = f"{-edge} {-edge} {coord(wide + 2 * edge)} {coord(high + 2 * edge)}"
    opening = re.sub(r'width=.*viewBox="[^"]*"', _size(wide, high, edge, box), opening)
    back = f'<rect x="{-edge}" y="{-edge}" width="100%" height="100%" fill="{LIGHT["surface"]}"/>'
    header = '<?xml version="1.0" encoding="UTF-8"?>\n'
    return f"{header}{opening}>\n<style>{style}</style>\n{back}{rest}\n"


def _size(wide: float, high: float, edge: int, box: str) -> str:
    return f'width="{coord(wide + 2 * edge)}" height="{coord(high + 2 * edge)}" viewBox="{box}"'


def _clean(series: Sequence[Series]) -> list[Series]:
    """Return the series that have finite points, with these only, and a colour each."""
    found = [
        replace(s, points=finite(s.points), colour=colour(i if s.colour is None else s.colour))
        for i, s in enumerate(series)
    ]
    return [s for s in found if s.points]


def _entries(clean: Sequence[Series], sample: str) -> list[Key]:
    return [key(s.name, sample, s.colour or 0) for s in clean]


def _line(on: Plane, s: Series, *, step: bool) -> str:
    points = downsample(s.points, int(on.area.right - on.area.left))
    pixels = [on.at(*p) for p in corners(points, step=step)]
    if len(pixels) == 1:
        x, y = map(coord, pixels[0])
        return f'<circle class="f{s.colour}" cx="{x}" cy="{y}" r="2.5"/>'
    return f'<path class="line s{s.colour}" d="{path(pixels)}"/>'


def _strips(
    on: Plane, x: str, clean: Sequence[Series], *, step: bool, zeros: bool = True
) -> Iterator[str]:
    """Yield invisible vertical strips that show all values at their x on hover."""
    xs = sorted({at for s in clean for at, _ in s.points})
    if not xs:
        return
    if len(xs) > _STRIPS:
        pitch = (xs[-1] - xs[0]) / _STRIPS
        xs = [xs[0] + i * pitch for i in range(_STRIPS + 1)]
    # With `step`, a value covers the time after its point, otherwise both sides of it.
    inner = xs[1:] if step else [(a + b) / 2 for a, b in pairwise(xs)]
    area = on.area
    edges = [area.left, *map(on.x.at, inner), area.right]
    for at, (left, right) in zip(xs, pairwise(edges), strict=True):
        values = [(s.name, value_at(s.points, at, step=step)) for s in clean]
        texts = [f"{name}: {number(v)}" for name, v in values if v or (zeros and v == 0)]
        if right - left < 0.01 or not texts:
            continue
        rest = [f"and {len(texts) - _MOST_VALUES} more"] if len(texts) > _MOST_VALUES else []
        text = "\n".join([f"{x}: {number(at)}", *texts[:_MOST_VALUES], *rest])
        box = f'x="{coord(left)}" y="{coord(area.top)}" width="{coord(right - left)}"'
        yield (
            f'<rect class="hit" {box} height="{coord(area.bottom - area.top)}">'
            f"<title>{escape(text)}</title></rect>"
        )


def _marks(on: Plane, marks: Sequence[Mark]) -> Iterator[str]:
    """Yield the dots, and their texts in the first free corner around each dot."""
    taken: list[Point] = []
    for mark in marks:
        x, y = on.at(mark.x, mark.y)
        wide = text_width(mark.text)
        corner = [(x + dx, y + dy) for dy in (-7, 16) for dx in (7, -7 - wide)]
        inside = [c for c in corner if on.area.left <= c[0] and c[0] + wide <= on.area.right + 8]
        free = [c for c in inside if all(_clear(c, wide, t) for t in taken)]
        spot = (free or inside or corner)[0]
        taken += [spot, (spot[0] + wide, spot[1])]
        hover = f"{mark.text}\n{number(mark.x)}, {number(mark.y)}"
        yield (
            f'<circle class="mark" cx="{coord(x)}" cy="{coord(y)}" r="4">'
            f"<title>{escape(hover)}</title></circle>"
        )
        yield text_element(*spot, mark.text, "halo")


def _clear(spot: Point, wide: float, end: Point) -> bool:
    """Return whether the end of an earlier text is outside a text at this position."""
    return abs(end[1] - spot[1]) > 14 or not spot[0] - 6 < end[0] < spot[0] + wide + 6


def _breaks(clean: Sequence[Series], columns: int) -> list[float]:
    """Return the x of all changes, downsampled by the total to the pixels."""
    changes = sorted((x, i, y) for i, s in enumerate(clean) for x, y in s.points)
    now = [0.0] * len(clean)
    total = 0.0
    totals: dict[float, float] = {}
    for x, i, y in changes:
        total += y - now[i]
        now[i] = y
        totals[x] = total
    return [x for x, _ in downsample(list(totals.items()), columns)]


def _layers(clean: Sequence[Series], xs: Sequence[float]) -> list[list[Point]]:
    """Return the lower and upper edge of each series from each x on."""
    held = [[*s.points, (xs[-1], s.points[-1][1])] for s in clean]
    sums = [
        list(accumulate((max(value_at(p, x, step=True) or 0.0, 0.0) for p in held), initial=0.0))
        for x in xs
    ]
    return [[(row[i], row[i + 1]) for row in sums] for i in range(len(clean))]


def _area(on: Plane, s: Series, xs: Sequence[float], layer: Sequence[Point]) -> str:
    """Return one layer, without the parts of no height, which would be drawn as hairlines."""
    pieces: list[str] = []
    upper: list[Point] = []
    lower: list[Point] = []
    for (since, until), (low, high) in zip(pairwise(xs), layer[:-1], strict=True):
        if high > low:
            upper += [on.at(since, high), on.at(until, high)]
            lower += [on.at(since, low), on.at(until, low)]
        elif upper:
            pieces.append(path([*upper, *reversed(lower)], closed=True))
            upper, lower = [], []
    if upper:
        pieces.append(path([*upper, *reversed(lower)], closed=True))
    return f'<path class="area f{s.colour}" d="{"".join(pieces)}"/>'


def _limit(on: Plane, capacity: float) -> list[str]:
    y, area = on.y.at(capacity), on.area
    line = f'<path class="limit" d="M{coord(area.left)} {coord(y)}H{coord(area.right)}"/>'
    return [line, text_element(area.right, y - 6, f"capacity {number(capacity)}", "small end halo")]


def _distinct(on: Plane, points: Sequence[Point]) -> list[Point]:
    """Return the points; if there are very many, one for each pixel."""
    if len(points) <= MANY:
        return list(points)
    cells = {(round(on.x.at(x)), round(on.y.at(y))): (x, y) for x, y in points}
    return list(cells.values())


def _dot(on: Plane, s: Series, at: Point, names: tuple[str, str]) -> str:
    x, y = map(coord, on.at(*at))
    hover = f"{s.name}\n{names[0]}: {number(at[0])}\n{names[1]}: {number(at[1])}".lstrip("\n")
    dot = f'<circle class="dot f{s.colour}" cx="{x}" cy="{y}" r="4">'
    return f"{dot}<title>{escape(hover)}</title></circle>"
