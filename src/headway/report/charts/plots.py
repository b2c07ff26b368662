"""Charts of series as SVG: lines and stacked areas.

A chart is a string for an HTML page with ``STYLE``. The same input gives the same bytes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby, pairwise

from headway.report.charts import elements
from headway.report.charts.axes import WIDTH, Key, Plane, chart, empty_chart, extent, key, plane
from headway.report.charts.curves import corners, downsample, finite, path, value_at
from headway.report.charts.elements import Point, number, text_element, text_width
from headway.report.charts.style import colour

_STRIPS = 90
_MOST_VALUES = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A named series of (x, y) points."""

    name: str
    points: Sequence[Point]
    colour: int | None = None
    grey: bool = False
    """In an area: grey instead, for what is not compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A small labelled dot."""

    x: float
    y: float
    text: str


def lines(
    series: Sequence[Series],
    *,
    x: str,
    y: str,
    title: str = "",
    step: bool = False,
    height: int = 300,
    marks: Sequence[Mark] = (),
) -> str:
    """Return a line chart; with ``step`` a value holds until the next point."""
    clean = drawable(series)
    shown = [m for m in marks if finite([(m.x, m.y)])]
    points = [p for s in clean for p in s.points] + [(m.x, m.y) for m in shown]
    if not points:
        return empty_chart(title)
    on = plane(
        title=title,
        entries=legend_keys(clean, "line"),
        names=(x, y),
        xs=extent(at for at, _ in points),
        ys=extent((v for _, v in points), zero=True),
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
    height: int = 300,
    capacity: float | None = None,
) -> str:
    """Return step functions as stacked areas; the last values hold to the end."""
    clean = drawable(series)
    if not clean:
        return empty_chart(title)
    xs = _breaks(clean, WIDTH)
    held = [replace(s, points=[*s.points, (xs[-1], s.points[-1][1])]) for s in clean]
    layers = _layers(held, xs)
    top = max(*(high for _, high in layers[-1]), capacity or 0.0)
    on = plane(
        title=title,
        entries=legend_keys(clean, "box"),
        names=(x, y),
        xs=extent(xs),
        ys=extent([top], zero=True),
        height=height,
    )
    parts = [_area(on, s, xs, layer) for s, layer in zip(clean, layers, strict=True)]
    parts += _strips(on, x, held, step=True, zeros=False)
    if capacity is not None:
        parts += _limit(on, capacity)
    return chart(on.area, parts, title or f"{y} over {x}")


def drawable(series: Sequence[Series]) -> list[Series]:
    """Return the series that have finite points, with these only, and a colour each."""
    found = [
        replace(s, points=finite(s.points), colour=colour(i if s.colour is None else s.colour))
        for i, s in enumerate(series)
    ]
    return [s for s in found if s.points]


def legend_keys(clean: Sequence[Series], sample: str) -> list[Key]:
    return [
        Key(name=s.name, sample=sample, css="base")
        if s.grey
        else key(s.name, sample, s.colour or 0)
        for s in clean
    ]


def _line(on: Plane, s: Series, *, step: bool) -> str:
    points = downsample(s.points, int(on.area.right - on.area.left))
    pixels = [on.at(*p) for p in corners(points, step=step)]
    if len(pixels) == 1:
        return elements.circle(f"f{s.colour}", *pixels[0], 2.5)
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
        size = (right - left, area.bottom - area.top)
        yield elements.rect("hit", (left, area.top), size, hover=text)


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
        yield elements.circle("mark", x, y, 4, hover)
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


def _layers(held: Sequence[Series], xs: Sequence[float]) -> list[list[Point]]:
    """Return the lower and upper edge of each series from each x on."""
    values = ([max(value_at(s.points, x, step=True) or 0.0, 0.0) for s in held] for x in xs)
    sums = [list(accumulate(row, initial=0.0)) for row in values]
    return [[(row[i], row[i + 1]) for row in sums] for i in range(len(held))]


def _area(on: Plane, s: Series, xs: Sequence[float], layer: Sequence[Point]) -> str:
    """Return one layer, without the parts of no height, which would be drawn as hairlines."""
    pieces = []
    steps = zip(pairwise(xs), layer[:-1], strict=True)
    for visible, adjacent in groupby(steps, key=lambda step: step[1][1] > step[1][0]):
        if visible:
            drawn = list(adjacent)
            upper = [on.at(x, high) for ends, (_, high) in drawn for x in ends]
            lower = [on.at(x, low) for ends, (low, _) in drawn for x in ends]
            pieces.append(path([*upper, *reversed(lower)], closed=True))
    fill = "base" if s.grey else f"f{s.colour}"
    return f'<path class="area {fill}" d="{"".join(pieces)}"/>'


def _limit(on: Plane, capacity: float) -> list[str]:
    y, area = on.y.at(capacity), on.area
    text = text_element(area.right, y - 6, f"capacity {number(capacity)}", "small end halo")
    return [elements.rule("limit", area.left, area.right, y), text]
