"""Parts that all charts share: scales, ticks, and the frame with grid, title and legend."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from headway.report.charts import elements
from headway.report.charts.elements import coord, elide, text_element, text_width
from headway.report.charts.style import colour

WIDTH = 760
_ROW = 19
_TITLE = 27
_FOOT = 42
_NAME = 190.0
_MANY_NAMES = 24
_SAMPLE = 36
_PITCH = 42


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Maps values from low to high onto pixels from start to end."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One entry of a legend: a name, and the shape and CSS class of its sample."""

    name: str
    sample: str
    css: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The drawing area of a chart, and the elements around it."""

    height: float
    left: float
    right: float = WIDTH - 14.0
    top: float
    bottom: float
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plane:
    """A frame with a horizontal and a vertical scale."""

    area: Frame
    x: Scale
    y: Scale

    def at(self, x: float, y: float) -> tuple[float, float]:
        return self.x.at(x), self.y.at(y)


def step_size(low: float, high: float, count: int) -> float:
    """Return the round step (1, 2, 2.5 or 5 times a power of ten) for about count ticks."""
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    return next((m * power for m in (1, 2, 2.5, 5) if m * power >= rough * 0.99), 10 * power)


def ticks(low: float, high: float, count: int) -> list[float]:
    """Return the round values from low to high."""
    step = step_size(low, high, count)
    first, last = math.ceil(low / step - 1e-6), math.floor(high / step + 1e-6)
    return [i * step for i in range(first, last + 1)]


def extent(values: Iterable[float], *, zero: bool = False) -> tuple[float, float]:
    """Return the least and the greatest value, widened if they are equal."""
    found = list(values)
    low, high = min(found, default=0.0), max(found, default=1.0)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if low == high:
        pad = abs(low) * 0.05 or 0.5
        low, high = (0.0, 1.0) if zero else (low - pad, high + pad)
    return low, high


def round_range(low: float, high: float, count: int) -> tuple[float, float]:
    """Return the range widened to ticks at both ends."""
    for _ in range(3):  # a wider range can need a larger step, which widens it again
        step = step_size(low, high, count)
        low, high = math.floor(low / step + 1e-6) * step, math.ceil(high / step - 1e-6) * step
    return low, high


def key(name: str, sample: str, index: int) -> Key:
    """Return the legend entry of a palette colour."""
    letter = "s" if sample == "line" else "f"
    return Key(name=name, sample=sample, css=f"{letter}{colour(index)}")


def _sample(entry: Key, x: float, y: float) -> str:
    if entry.sample == "line":
        return f'<path class="line {entry.css}" d="M{coord(x)} {coord(y - 4)}h14"/>'
    if entry.sample == "dot":
        return elements.circle(entry.css, x + 8, y - 4, 4.5)
    return elements.rect(entry.css, (x + 3, y - 9), (11, 11), radius=2)


def legend(entries: Sequence[Key], top: float) -> tuple[list[str], float]:
    """Return the legend, wrapped to the width, and its lower end.

    Several rows are aligned in columns.
    """
    named = [entry for entry in entries if entry.name]
    longest = _NAME if len(named) <= _MANY_NAMES else WIDTH / 5 - _SAMPLE
    names = [elide(entry.name, longest) for entry in named]
    sizes = [text_width(name) + _SAMPLE for name in names]
    if sum(sizes) > WIDTH:
        columns = max(1, int((WIDTH + 0.01) // max(sizes)))
        sizes = [WIDTH / columns] * len(sizes)
    parts, x, y = [], 0.0, top + 12
    for entry, name, size in zip(named, names, sizes, strict=True):
        if x and x + size > WIDTH + 0.01:
            x, y = 0.0, y + _ROW
        parts += [_sample(entry, x, y), text_element(x + 20, y, name, full=entry.name)]
        x += size
    return parts, y + 7 if named else top


def frame(
    *, title: str, entries: Sequence[Key], y: str, left: float, height: float, foot: float = _FOOT
) -> Frame:
    """Return the frame; more legend rows make the chart taller, not its area smaller."""
    head = _TITLE if title else 0
    parts, end = legend(entries, head)
    if title:
        parts.insert(0, text_element(0, 16, elide(title, WIDTH, 14), "title", full=title))
    if y:
        parts.append(text_element(0, end + 13, y, "muted"))
    top = end + (27 if y else 8)
    bottom = max(height + max(0.0, end - head - _ROW) - foot, top + 60)
    return Frame(height=bottom + foot, left=left, top=top, bottom=bottom, parts=tuple(parts))


def vertical_scale(low: float, high: float, height: float) -> Scale:
    """Return a vertical scale from 0 to the height."""
    low, high = round_range(low, high, max(2, int(height / _PITCH)))
    return Scale(low=low, high=high, start=height, end=0)


def label_margin(scale: Scale) -> float:
    """Return the width of the labels of a vertical axis."""
    return max(text_width(text) for _, text in _labelled(scale, _PITCH)) + 10


def _labelled(scale: Scale, pitch: float) -> list[tuple[float, str]]:
    count = max(2, int(abs(scale.end - scale.start) / pitch))
    found = ticks(scale.low, scale.high, count)
    return list(zip(found, elements.tick_labels(found), strict=True))


def y_axis(area: Frame, scale: Scale) -> list[str]:
    """Return horizontal grid lines with their values."""
    parts = []
    for tick, text in _labelled(scale, _PITCH):
        y, css = scale.at(tick), "axis" if tick == 0 else "grid"
        parts.append(elements.rule(css, area.left, area.right, y))
        parts.append(text_element(area.left - 7, y + 4, text, "muted end"))
    return parts


def x_axis(area: Frame, scale: Scale, title: str, *, grid: bool = False) -> list[str]:
    """Return the values along the bottom, with ticks or with grid lines."""
    parts = [elements.rule("axis", area.left, area.right, area.bottom)]
    rise, css = (area.top, "grid") if grid else (area.bottom + 4, "axis")
    for tick, text in _labelled(scale, 85):
        x = scale.at(tick)
        line = f'<path class="{css}" d="M{coord(x)} {coord(area.bottom)}V{coord(rise)}"/>'
        parts += [line, text_element(x, area.bottom + 17, text, "muted mid")]
    middle = (area.left + area.right) / 2
    return [*parts, text_element(middle, area.bottom + 36, title, "muted mid")]


def plane(
    *,
    title: str,
    entries: Sequence[Key],
    names: tuple[str, str],
    xs: tuple[float, float],
    ys: tuple[float, float],
    height: int,
) -> Plane:
    """Return a drawing area with both axes around it."""
    up = vertical_scale(*ys, height - _TITLE - _ROW - _FOOT - 27)
    area = frame(title=title, entries=entries, y=names[1], left=label_margin(up), height=height)
    down = replace(up, start=area.bottom, end=area.top)
    across = Scale(low=xs[0], high=xs[1], start=area.left, end=area.right)
    parts = (*area.parts, *y_axis(area, down), *x_axis(area, across, names[0]))
    return Plane(area=replace(area, parts=parts), x=across, y=down)


def chart(area: Frame, parts: Iterable[str], name: str) -> str:
    """Return the complete SVG element."""
    height = coord(area.height)
    box = f'width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" class="hw" {box} role="img"'
    lines = "\n".join([*area.parts, *parts])
    return f'{opening} aria-label="{elements.escape(name)}">\n{lines}\n</svg>'


def empty_chart(title: str) -> str:
    area = frame(title=title, entries=(), y="", left=0, height=90, foot=0)
    note = text_element(WIDTH / 2, 62, "no data", "muted mid")
    return chart(area, [note], title or "no data")
