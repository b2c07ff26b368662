"""The Gantt chart: one row for each node or job."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from headway.report.charts.axes import (
    Frame,
    Key,
    Scale,
    chart,
    empty_chart,
    extent,
    frame,
    key,
    x_axis,
)
from headway.report.charts.labels import coord, elide, escape, number, text_element, text_width
from headway.report.charts.style import colour

_LABEL = 150.0
_GAP = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A period in a row; a mark is drawn at its start."""

    row: str
    since: float
    until: float
    label: str
    colour: int | None = None
    mark: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """The vertical position of a span."""

    top: float
    height: float


def gantt(
    spans: Sequence[Span], *, x: str, rows: Sequence[str], title: str = "", width: int = 760
) -> str:
    """Return the spans along time; overlapping spans of a row are in separate lanes."""
    rows = list(dict.fromkeys(rows))
    shown = _shown(spans, rows)
    if not shown:
        return empty_chart(title, width)
    order = {label: i for i, label in enumerate(dict.fromkeys(s.label for s in shown))}
    left = min(max(map(text_width, rows)), _LABEL) + 12
    low, high = extent(t for span in shown for t in (span.since, span.until))
    # Start at 0 unless all times are far from it.
    low = 0.0 if 0 < low < high / 4 else low
    across = Scale(low=low, high=high, start=left, end=width - 14.0)
    lanes = {row: sub_lanes([s for s in shown if s.row == row]) for row in rows}
    heights = _heights(rows, lanes)
    entries = _entries(shown, order, across)
    area = frame(title=title, entries=entries, y="", left=left, width=width, height=60)
    bottom = area.top + sum(heights.values())
    area = replace(area, bottom=bottom, height=bottom + 42)
    parts = x_axis(area, across, x, grid=True)
    marks: list[str] = []
    top = area.top
    for row in rows:
        parts += _row(row, area, top, heights[row])
        tall = (heights[row] - 2 * _GAP) / _count(lanes[row])
        for span, lane in lanes[row]:
            spot = Lane(top=top + _GAP + lane * tall, height=tall - 1.5)
            parts.append(_span(span, spot, across, _tint(span, order)))
            marks += _mark(span, spot, across)
        top += heights[row]
    return chart(area, [*parts, *marks], title or f"{len(rows)} rows over {x}")


def sub_lanes(spans: Sequence[Span]) -> list[tuple[Span, int]]:
    """Return the first free lane for each span, so that spans in a lane do not overlap."""
    ends: list[float] = []
    lanes: list[tuple[Span, int]] = []
    for span in sorted(spans, key=lambda s: (s.since, s.until, s.label)):
        lane = next((i for i, end in enumerate(ends) if end <= span.since), len(ends))
        ends[lane : lane + 1] = [span.until]
        lanes.append((span, lane))
    return lanes


def _count(lanes: Sequence[tuple[Span, int]]) -> int:
    return max((lane for _, lane in lanes), default=0) + 1


def _shown(spans: Sequence[Span], rows: Sequence[str]) -> list[Span]:
    known = set(rows)
    return [
        s
        for s in spans
        if s.row in known and math.isfinite(s.since + s.until) and s.since <= s.until
    ]


def _tint(span: Span, order: Mapping[str, int]) -> int:
    """Return the colour of a span, or of the index of its label."""
    return colour(order[span.label] if span.colour is None else span.colour)


def _heights(rows: Sequence[str], lanes: Mapping[str, list[tuple[Span, int]]]) -> dict[str, float]:
    usual = 24.0 if len(rows) <= 30 else 19.0
    heights = {}
    for row in rows:
        count = _count(lanes[row])
        heights[row] = usual if count == 1 else count * max(11.0, usual - 4 - count) + 2 * _GAP
    return heights


def _entries(spans: Sequence[Span], order: Mapping[str, int], across: Scale) -> list[Key]:
    """Return a legend if bars are too short for their names and each colour has one name."""
    names: dict[int, set[str]] = defaultdict(set)
    for span in spans:
        names[_tint(span, order)].add(span.label)
    labelled = all(s.label == s.row or _fits(s, across) for s in spans)
    if labelled or any(len(labels) > 1 for labels in names.values()):
        return []
    return [key(min(labels), "box", tint) for tint, labels in names.items()]


def _label_width(span: Span, across: Scale) -> float:
    taken = text_width(span.mark, 9) / 2 + 4 if span.mark else 0
    return across.at(span.until) - across.at(span.since) - taken - 10


def _fits(span: Span, across: Scale) -> bool:
    return text_width(span.label, 11) <= _label_width(span, across)


def _row(row: str, area: Frame, top: float, height: float) -> Iterator[str]:
    if top > area.top:
        yield f'<path class="grid" d="M0 {coord(top)}H{coord(area.right)}"/>'
    short = elide(row, area.left - 12)
    yield text_element(area.left - 10, top + height / 2 + 4, short, "end", full=row)


def _span(span: Span, spot: Lane, across: Scale, tint: int) -> str:
    start, end = across.at(span.since), across.at(span.until)
    hover = f"{span.label}\n{number(span.since)} to {number(span.until)}"
    hover += f" ({number(span.until - span.since)})" + (f"\n{span.mark}" if span.mark else "")
    size = f'width="{coord(max(end - start - 0.4, 1))}" height="{coord(spot.height)}"'
    rect = f'<rect class="f{tint}" x="{coord(start)}" y="{coord(spot.top)}" {size}'
    bar = f'{rect} rx="2"><title>{escape(hover)}</title></rect>'
    if not span.label or spot.height < 11 or not _fits(span, across):
        return bar
    at = end - 5 - _label_width(span, across)
    # The bar has the hover text, so the label ignores the pointer.
    text = text_element(at, spot.top + spot.height / 2 + 4, span.label, f"small still o{tint}")
    return bar + text


def _mark(span: Span, spot: Lane, across: Scale) -> list[str]:
    if not span.mark:
        return []
    x, y = across.at(span.since), spot.top + spot.height / 2
    half = max(text_width(span.mark, 9) / 2 + 2.5, 5.5)
    tall = min(spot.height, 13.0)
    box = f'x="{coord(x - half)}" y="{coord(y - tall / 2)}" width="{coord(2 * half)}"'
    hover = f"{span.mark}: {span.label} at {number(span.since)}"
    rect = f'<rect class="mark" {box} height="{coord(tall)}" rx="{coord(tall / 2)}">'
    return [
        f"{rect}<title>{escape(hover)}</title></rect>",
        text_element(x, y + 3.2, span.mark, "badge still mid"),
    ]
