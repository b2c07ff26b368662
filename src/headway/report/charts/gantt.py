"""The Gantt chart: which job was where and when, one row for each node or job."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from headway.report.charts.axes import Frame, Key, Scale, chart, extent, frame, key, nothing, x_axis
from headway.report.charts.labels import breadth, elide, escape, number, place, words
from headway.report.charts.style import colour

_LABEL = 150.0
_GAP = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A stretch of time in a row; a faint one (waiting) is hollow, a mark stands at its start."""

    row: str
    since: float
    until: float
    label: str
    colour: int | None = None
    mark: str = ""
    faint: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """Where a span lies: from its row's first lane downwards, and how tall a lane is."""

    top: float
    height: float


def gantt(
    spans: Sequence[Span], *, x: str, rows: Sequence[str], title: str = "", width: int = 760
) -> str:
    """Return the spans along time; those of one row that overlap lie in lanes under each other."""
    rows = list(dict.fromkeys(rows))
    shown = _shown(spans, rows)
    if not shown:
        return nothing(title, width)
    order = {label: i for i, label in enumerate(dict.fromkeys(s.label for s in shown))}
    left = min(max(map(breadth, rows)), _LABEL) + 12
    low, high = extent(t for span in shown for t in (span.since, span.until))
    # A study begins at 0; a row of dates far from it does not.
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
    """Return a lane for each span, the first that is free, so that no two in a lane overlap."""
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
    """Return the colour of a span; without one of its own, that of its label's place."""
    return colour(order[span.label] if span.colour is None else span.colour)


def _heights(rows: Sequence[str], lanes: Mapping[str, list[tuple[Span, int]]]) -> dict[str, float]:
    usual = 24.0 if len(rows) <= 30 else 19.0
    heights = {}
    for row in rows:
        count = _count(lanes[row])
        heights[row] = usual if count == 1 else count * max(11.0, usual - 4 - count) + 2 * _GAP
    return heights


def _entries(spans: Sequence[Span], order: Mapping[str, int], across: Scale) -> list[Key]:
    """Return a legend only where bars are too short for their names and a colour has one name."""
    names: dict[int, set[str]] = defaultdict(set)
    for span in spans:
        names[_tint(span, order)].add(span.label)
    told = all(s.label == s.row or _fits(s, across) for s in spans)
    if told or any(len(labels) > 1 for labels in names.values()):
        return []
    return [key(min(labels), "box", tint) for tint, labels in names.items()]


def _room(span: Span, across: Scale) -> float:
    taken = breadth(span.mark, 9) / 2 + 4 if span.mark else 0
    return across.at(span.until) - across.at(span.since) - taken - 10


def _fits(span: Span, across: Scale) -> bool:
    return breadth(span.label, 11) <= _room(span, across)


def _row(row: str, area: Frame, top: float, height: float) -> Iterator[str]:
    if top > area.top:
        yield f'<path class="grid" d="M0 {place(top)}H{place(area.right)}"/>'
    short = elide(row, area.left - 12)
    yield words(area.left - 10, top + height / 2 + 4, short, "end", whole=row)


def _span(span: Span, spot: Lane, across: Scale, tint: int) -> str:
    start, end = across.at(span.since), across.at(span.until)
    told = f"{span.label}\n{number(span.since)} to {number(span.until)}"
    told += f" ({number(span.until - span.since)})" + (f"\n{span.mark}" if span.mark else "")
    inset = 0.6 if span.faint else 0
    size = f'width="{place(max(end - start - 2 * inset - 0.4, 1))}"'
    size += f' height="{place(spot.height - 2 * inset)}"'
    looks = f"hollow s{tint}" if span.faint else f"f{tint}"
    rect = f'<rect class="{looks}" x="{place(start + inset)}" y="{place(spot.top + inset)}" {size}'
    bar = f'{rect} rx="2"><title>{escape(told)}</title></rect>'
    if not span.label or spot.height < 11 or not _fits(span, across):
        return bar
    ink = "muted" if span.faint else f"o{tint}"
    at = end - 5 - _room(span, across)
    # The bar under the text has the hover text, hence no pointer on the words.
    text = words(at, spot.top + spot.height / 2 + 4, span.label, f"small still {ink}")
    return bar + text


def _mark(span: Span, spot: Lane, across: Scale) -> list[str]:
    if not span.mark:
        return []
    x, y = across.at(span.since), spot.top + spot.height / 2
    half = max(breadth(span.mark, 9) / 2 + 2.5, 5.5)
    tall = min(spot.height, 13.0)
    box = f'x="{place(x - half)}" y="{place(y - tall / 2)}" width="{place(2 * half)}"'
    told = f"{span.mark}: {span.label} at {number(span.since)}"
    rect = f'<rect class="mark" {box} height="{place(tall)}" rx="{place(tall / 2)}">'
    return [
        f"{rect}<title>{escape(told)}</title></rect>",
        words(x, y + 3.2, span.mark, "badge still mid"),
    ]
