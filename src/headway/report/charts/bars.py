"""The bar chart: groups of upright bars, one bar of each series in a group, with whiskers."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from headway.report.charts.axes import (
    Frame,
    Key,
    Scale,
    chart,
    extent,
    frame,
    key,
    margin,
    nothing,
    upright,
    y_axis,
)
from headway.report.charts.labels import breadth, elide, escape, number, place, words
from headway.report.charts.style import colour

_MANY_GROUPS = 12
_LONGEST = 110.0
_TURN = 60
_FOOT = 26.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar: which group and which series it is of, its value and its whisker."""

    group: int
    series: int
    value: float
    looks: str
    name: str
    whisker: tuple[float, float] | None


def bars(  # noqa: PLR0913 - a chart has many knobs
    groups: Sequence[str],
    series: Mapping[str, Sequence[float | None]],
    *,
    y: str,
    title: str = "",
    errors: Mapping[str, Sequence[tuple[float, float] | None]] | None = None,
    baseline: str | None = None,
    width: int = 760,
    height: int = 300,
) -> str:
    """Return grouped bars; the baseline series is grey, so that the others stand out."""
    found = list(_found(groups, series, errors or {}, baseline))
    if not found:
        return nothing(title, width)
    ends = [v for bar in found for v in (bar.value, *(bar.whisker or ()))]
    if min(ends) < 0:  # room for the value under the lowest bar
        ends.append(min(ends) - (max(*ends, 0) - min(ends)) * 0.08)
    up = upright(*extent(ends, zero=True), height - 115)
    left = margin(up)
    slot = (width - left - 14) / len(groups)
    turned = _turned(groups, slot)
    foot = _foot(groups) if turned else _FOOT
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
    return chart(area, [*parts, *_names(groups, area, slot, turned=turned)], title or y)


def _entries(series: Mapping[str, Sequence[float | None]], baseline: str | None) -> list[Key]:
    return [
        Key(name=name, sample="box", looks="base") if name == baseline else key(name, "box", i)
        for i, name in enumerate(series)
    ]


def _found(
    groups: Sequence[str],
    series: Mapping[str, Sequence[float | None]],
    errors: Mapping[str, Sequence[tuple[float, float] | None]],
    baseline: str | None,
) -> Iterator[Bar]:
    for i, (name, values) in enumerate(series.items()):
        whiskers = [*errors.get(name, ()), *[None] * len(groups)]
        looks = "base" if name == baseline else f"f{colour(i)}"
        for group, value in enumerate(values[: len(groups)]):
            if value is None or not math.isfinite(value):
                continue
            whisker = whiskers[group]
            known = whisker if whisker and all(map(math.isfinite, whisker)) else None
            yield Bar(group=group, series=i, value=value, looks=looks, name=name, whisker=known)


def _bar(bar: Bar, left: float, pitch: float, scale: Scale, group: str) -> list[str]:
    wide = pitch * 0.9 if pitch > 8 else pitch - 0.8
    zero, end = scale.at(0), scale.at(bar.value)
    top, bottom = min(zero, end), max(zero, end)
    told = f"{group}\n{bar.name}: {number(bar.value)}"
    if bar.whisker:
        told += f" ({number(bar.whisker[0])} to {number(bar.whisker[1])})"
    size = f'width="{place(max(wide, 0.8))}" height="{place(max(bottom - top, 0.5))}"'
    rect = f'<rect class="{bar.looks}" x="{place(left)}" y="{place(top)}" {size} rx="1">'
    parts = [f"{rect}<title>{escape(told)}</title></rect>"]
    middle = left + wide / 2
    if bar.whisker:
        low, high = scale.at(bar.whisker[0]), scale.at(bar.whisker[1])
        cap = min(4.0, wide / 3)
        parts.append(_whisker(middle, low, high, cap))
        top, bottom = min(top, low, high), max(bottom, low, high)
    text = number(float(f"{bar.value:.3g}"))
    if breadth(text, 11) <= pitch:
        spot = top - 4 if bar.value >= 0 else bottom + 12
        parts.append(words(middle, spot, text, "small muted mid halo"))
    return parts


def _whisker(x: float, low: float, high: float, cap: float) -> str:
    ends = "".join(f"M{place(x - cap)} {place(y)}h{place(2 * cap)}" for y in (low, high))
    return f'<path class="whisker" d="M{place(x)} {place(low)}V{place(high)}{ends}"/>'


def _turned(groups: Sequence[str], slot: float) -> bool:
    """Return whether the names must stand at an angle: too many, or too long for small slots."""
    crowded = slot < 90 and any(breadth(group) > slot - 4 for group in groups)
    return len(groups) > _MANY_GROUPS or crowded


def _foot(groups: Sequence[str]) -> float:
    """Return the room that turned names need under the bars."""
    longest = min(max(breadth(group, 11) for group in groups), _LONGEST)
    return longest * math.sin(math.radians(_TURN)) + 22


def _names(groups: Sequence[str], area: Frame, slot: float, *, turned: bool) -> Iterator[str]:
    every = max(1, math.ceil(13 / slot)) if turned else 1
    for i, group in enumerate(groups):
        x, y = area.left + slot * (i + 0.5), area.bottom
        if turned and i % every == 0:
            short = elide(group, _LONGEST, 11)
            yield words(x + 3, y + 13, short, "small muted end", whole=group, turn=-_TURN)
        elif not turned:
            yield words(x, y + 18, elide(group, slot - 4), "muted mid", whole=group)
