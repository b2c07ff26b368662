"""The bar chart: groups of bars, one bar of each series in a group."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from headway.report.charts.axes import (
    Frame,
    Key,
    Scale,
    chart,
    empty_chart,
    extent,
    frame,
    key,
    label_margin,
    vertical_scale,
    y_axis,
)
from headway.report.charts.labels import coord, elide, escape, number, text_element, text_width
from headway.report.charts.style import colour

_MANY_GROUPS = 12
_LONGEST = 110.0
_TURN = 60
_FOOT = 26.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar: its group, series, value and colour."""

    group: int
    series: int
    value: float
    css: str
    name: str


def bars(
    groups: Sequence[str],
    series: Mapping[str, Sequence[float | None]],
    *,
    y: str,
    title: str = "",
    baseline: str | None = None,
    width: int = 760,
    height: int = 300,
) -> str:
    """Return grouped bars; the baseline series is grey."""
    found = list(_bars(groups, series, baseline))
    if not found:
        return empty_chart(title, width)
    ends = [bar.value for bar in found]
    if min(ends) < 0:  # space for the value under the lowest bar
        ends.append(min(ends) - (max(*ends, 0) - min(ends)) * 0.08)
    up = vertical_scale(*extent(ends, zero=True), height - 115)
    left = label_margin(up)
    slot = (width - left - 14) / len(groups)
    rotated = _rotated(groups, slot)
    foot = _foot(groups) if rotated else _FOOT
    area = frame(
        title=title,
        entries=_entries(series, baseline),
        y=y,
        left=left,
        width=width,
        height=height + foot - _FOOT,
        foot=foot,
    )
    scale = Scale(low=up.low, high=up.high, start=area.bottom, end=area.top)
    pitch = min(slot * (0.8 if slot > 24 else 0.86) / len(series), 46.0)
    parts = y_axis(area, scale)
    for bar in found:
        middle = left + slot * (bar.group + 0.5)
        at = middle + (bar.series - len(series) / 2) * pitch
        parts += _bar(bar, at, pitch, scale, groups[bar.group])
    return chart(area, [*parts, *_names(groups, area, slot, rotated=rotated)], title or y)


def _entries(series: Mapping[str, Sequence[float | None]], baseline: str | None) -> list[Key]:
    return [
        Key(name=name, sample="box", css="base") if name == baseline else key(name, "box", i)
        for i, name in enumerate(series)
    ]


def _bars(
    groups: Sequence[str],
    series: Mapping[str, Sequence[float | None]],
    baseline: str | None,
) -> Iterator[Bar]:
    for i, (name, values) in enumerate(series.items()):
        css = "base" if name == baseline else f"f{colour(i)}"
        for group, value in enumerate(values[: len(groups)]):
            if value is not None and math.isfinite(value):
                yield Bar(group=group, series=i, value=value, css=css, name=name)


def _bar(bar: Bar, left: float, pitch: float, scale: Scale, group: str) -> list[str]:
    wide = pitch * 0.9 if pitch > 8 else pitch - 0.8
    zero, end = scale.at(0), scale.at(bar.value)
    top, bottom = min(zero, end), max(zero, end)
    hover = f"{group}\n{bar.name}: {number(bar.value)}"
    size = f'width="{coord(max(wide, 0.8))}" height="{coord(max(bottom - top, 0.5))}"'
    rect = f'<rect class="{bar.css}" x="{coord(left)}" y="{coord(top)}" {size} rx="1">'
    parts = [f"{rect}<title>{escape(hover)}</title></rect>"]
    middle = left + wide / 2
    text = number(float(f"{bar.value:.3g}"))
    if text_width(text, 11) <= pitch:
        spot = top - 4 if bar.value >= 0 else bottom + 12
        parts.append(text_element(middle, spot, text, "small muted mid halo"))
    return parts


def _rotated(groups: Sequence[str], slot: float) -> bool:
    """Return whether the names are rotated: too many, or too long for their slots."""
    crowded = slot < 90 and any(text_width(group) > slot - 4 for group in groups)
    return len(groups) > _MANY_GROUPS or crowded


def _foot(groups: Sequence[str]) -> float:
    """Return the height of rotated names under the bars."""
    longest = min(max(text_width(group, 11) for group in groups), _LONGEST)
    return longest * math.sin(math.radians(_TURN)) + 22


def _names(groups: Sequence[str], area: Frame, slot: float, *, rotated: bool) -> Iterator[str]:
    every = max(1, math.ceil(13 / slot)) if rotated else 1
    for i, group in enumerate(groups):
        x, y = area.left + slot * (i + 0.5), area.bottom
        if rotated and i % every == 0:
            short = elide(group, _LONGEST, 11)
            yield text_element(x + 3, y + 13, short, "small muted end", full=group, rotate=-_TURN)
        elif not rotated:
            yield text_element(x, y + 18, elide(group, slot - 4), "muted mid", full=group)
