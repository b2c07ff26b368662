"""The bar chart: groups of bars, one bar of each series in a group."""

import math
from collections.abc import Iterator, Mapping, Sequence

from headway.report.charts import axes
from headway.report.charts.elements import elide, number, rect, text_element, text_width

_HEIGHT = 300
_MANY_GROUPS = 12
_LONGEST = 110.0
_TURN = 60
_FOOT = 26.0


def bars(
    groups: Sequence[str],
    series: Mapping[str, Sequence[float | None]],
    *,
    y: str,
    title: str = "",
    baseline: str | None = None,
) -> str:
    """Return grouped bars; the baseline series is grey."""
    found = {name: _finite(values[: len(groups)]) for name, values in series.items()}
    ends = [value for values in found.values() for value in values.values()]
    if not ends:
        return axes.empty_chart(title)
    if min(ends) < 0:  # space for the value under the lowest bar
        ends.append(min(ends) - (max(*ends, 0) - min(ends)) * 0.08)
    up = axes.vertical_scale(*axes.extent(ends, zero=True), _HEIGHT - 115)
    left = axes.label_margin(up)
    slot = (axes.WIDTH - left - 14) / len(groups)
    rotated = _rotated(groups, slot)
    foot = _foot(groups) if rotated else _FOOT
    keys = [
        axes.Key(name=name, sample="box", css="base")
        if name == baseline
        else axes.key(name, "box", i)
        for i, name in enumerate(series)
    ]
    height = _HEIGHT + foot - _FOOT
    area = axes.frame(title=title, entries=keys, y=y, left=left, height=height, foot=foot)
    scale = axes.Scale(low=up.low, high=up.high, start=area.bottom, end=area.top)
    pitch = min(slot * (0.8 if slot > 24 else 0.86) / len(series), 46.0)
    parts = axes.y_axis(area, scale)
    for i, entry in enumerate(keys):
        for group, value in found[entry.name].items():
            at = left + slot * (group + 0.5) + (i - len(series) / 2) * pitch
            hover = f"{groups[group]}\n{entry.name}: {number(value)}"
            parts += _bar(value, at, pitch, scale, entry.css, hover)
    parts += _names(groups, area, slot, rotated=rotated)
    return axes.chart(area, parts, title or y)


def _finite(values: Sequence[float | None]) -> dict[int, float]:
    """Return the values that can be drawn, by the index of their group."""
    return {i: v for i, v in enumerate(values) if v is not None and math.isfinite(v)}


def _bar(
    value: float, left: float, pitch: float, scale: axes.Scale, css: str, hover: str
) -> Iterator[str]:
    wide = pitch * 0.9 if pitch > 8 else pitch - 0.8
    zero, end = scale.at(0), scale.at(value)
    top, bottom = min(zero, end), max(zero, end)
    size = (max(wide, 0.8), max(bottom - top, 0.5))
    yield rect(css, (left, top), size, radius=1, hover=hover)
    text = number(float(f"{value:.3g}"))
    if text_width(text, 11) <= pitch:
        spot = top - 4 if value >= 0 else bottom + 12
        yield text_element(left + wide / 2, spot, text, "small muted mid halo")


def _rotated(groups: Sequence[str], slot: float) -> bool:
    """Return whether the names are rotated: too many, or too long for their slots."""
    crowded = slot < 90 and any(text_width(group) > slot - 4 for group in groups)
    return len(groups) > _MANY_GROUPS or crowded


def _foot(groups: Sequence[str]) -> float:
    """Return the height of rotated names under the bars."""
    longest = min(max(text_width(group, 11) for group in groups), _LONGEST)
    return longest * math.sin(math.radians(_TURN)) + 22


def _names(groups: Sequence[str], area: axes.Frame, slot: float, *, rotated: bool) -> Iterator[str]:
    every = max(1, math.ceil(13 / slot)) if rotated else 1
    for i, group in enumerate(groups):
        x, y = area.left + slot * (i + 0.5), area.bottom
        if rotated and i % every == 0:
            short = elide(group, _LONGEST, 11)
            yield text_element(x + 3, y + 13, short, "small muted end", full=group, rotate=-_TURN)
        elif not rotated:
            yield text_element(x, y + 18, elide(group, slot - 4), "muted mid", full=group)
