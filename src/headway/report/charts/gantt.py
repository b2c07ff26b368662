"""The Gantt chart: one row for each node or job."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from headway.report.charts import axes
from headway.report.charts.elements import elide, number, rect, rule, text_element, text_width
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
    detail: str = ""
    """Shown after the label where there is room."""

    @property
    def name(self) -> str:
        return f"{self.label} {self.detail}".rstrip()


def gantt(spans: Sequence[Span], *, x: str, rows: Sequence[str], title: str = "") -> str:
    """Return the spans along time; overlapping spans of a row are in separate lanes."""
    rows = list(dict.fromkeys(rows))
    shown = _shown(spans, set(rows))
    if not shown:
        return axes.empty_chart(title)
    left = min(max(map(text_width, rows)), _LABEL) + 12
    low, high = axes.extent(t for span in shown for t in (span.since, span.until))
    # Start at 0 unless all times are far from it.
    low = 0.0 if 0 < low < high / 4 else low
    across = axes.Scale(low=low, high=high, start=left, end=axes.WIDTH - 14.0)
    area = axes.frame(title=title, entries=_entries(shown, across), y="", left=left, height=60)
    parts: list[str] = []
    marks: list[str] = []
    usual = 24.0 if len(rows) <= 30 else 19.0
    top = area.top
    for row in rows:
        lanes = _lanes([s for s in shown if s.row == row])
        count = max((lane for _, lane in lanes), default=0) + 1
        height = usual if count == 1 else count * max(11.0, usual - 4 - count) + 2 * _GAP
        parts += _row(row, area, top, height)
        tall = (height - 2 * _GAP) / count
        for span, lane in lanes:
            spot = (top + _GAP + lane * tall, tall - 1.5)
            parts.append(_span(span, *spot, across))
            marks += _mark(span, *spot, across)
        top += height
    area = replace(area, bottom=top, height=top + 42)
    drawn = [*axes.x_axis(area, across, x, grid=True), *parts, *marks]
    return axes.chart(area, drawn, title or f"{len(rows)} rows over {x}")


def _lanes(spans: Sequence[Span]) -> list[tuple[Span, int]]:
    """Return the first free lane for each span, so that spans in a lane do not overlap."""
    ends: list[float] = []
    lanes: list[tuple[Span, int]] = []
    for span in sorted(spans, key=lambda s: (s.since, s.until, s.label)):
        lane = next((i for i, end in enumerate(ends) if end <= span.since), len(ends))
        ends[lane : lane + 1] = [span.until]
        lanes.append((span, lane))
    return lanes


def _shown(spans: Sequence[Span], rows: Collection[str]) -> list[Span]:
    """Return the spans of these rows, each with a colour: its own, or that of its label."""
    timed = [s for s in spans if math.isfinite(s.since + s.until) and s.since <= s.until]
    kept = [s for s in timed if s.row in rows]
    order = {label: i for i, label in enumerate(dict.fromkeys(s.label for s in kept))}
    tints = (order[s.label] if s.colour is None else s.colour for s in kept)
    return [replace(s, colour=colour(tint)) for s, tint in zip(kept, tints, strict=True)]


def _entries(spans: Sequence[Span], across: axes.Scale) -> list[axes.Key]:
    """Return a legend if bars are too short for their names and each colour has one name."""
    names: dict[int, set[str]] = defaultdict(set)
    for span in spans:
        names[span.colour or 0].add(span.label)
    labelled = all(s.label == s.row or _fits(s, across) for s in spans)
    if labelled or any(len(labels) > 1 for labels in names.values()):
        return []
    return [axes.key(min(labels), "box", tint) for tint, labels in names.items()]


def _label_width(span: Span, across: axes.Scale) -> float:
    taken = text_width(span.mark, 9) / 2 + 4 if span.mark else 0
    return across.at(span.until) - across.at(span.since) - taken - 10


def _fits(span: Span, across: axes.Scale) -> bool:
    return text_width(span.label, 11) <= _label_width(span, across)


def _row(row: str, area: axes.Frame, top: float, height: float) -> Iterator[str]:
    if top > area.top:
        yield rule("grid", 0, area.right, top)
    short = elide(row, area.left - 12)
    yield text_element(area.left - 10, top + height / 2 + 4, short, "end", full=row)


def _span(span: Span, top: float, height: float, across: axes.Scale) -> str:
    start, end = across.at(span.since), across.at(span.until)
    hover = f"{span.name}\n{number(span.since)} to {number(span.until)}"
    hover += f" ({number(span.until - span.since)})" + (f"\n{span.mark}" if span.mark else "")
    size = (max(end - start - 0.4, 1), height)
    bar = rect(f"f{span.colour}", (start, top), size, radius=2, hover=hover)
    if not span.label or height < 11 or not _fits(span, across):
        return bar
    room = _label_width(span, across)
    shown = span.name if text_width(span.name, 11) <= room else span.label
    at = end - 5 - room
    # The bar has the hover text, so the label ignores the pointer.
    return bar + text_element(at, top + height / 2 + 4, shown, f"small still o{span.colour}")


def _mark(span: Span, top: float, height: float, across: axes.Scale) -> Iterator[str]:
    if not span.mark:
        return
    x, y = across.at(span.since), top + height / 2
    half = max(text_width(span.mark, 9) / 2 + 2.5, 5.5)
    tall = min(height, 13.0)
    hover = f"{span.mark}: {span.name} at {number(span.since)}"
    corner, size = (x - half, y - tall / 2), (2 * half, tall)
    yield rect("mark", corner, size, radius=tall / 2, hover=hover)
    yield text_element(x, y + 3.2, span.mark, "badge still mid")
