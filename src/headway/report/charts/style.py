"""Colours of the charts and the page as CSS: one style sheet for light and dark mode.

A chart refers to colours only by class (``f3`` fills with palette colour 3, ``s3`` strokes with it,
``o3`` is text on top of it), so the page defines how they look.
"""

from collections.abc import Iterable

# The first colours differ most, also for colour-blind readers: neighbours differ in lightness and
# in hue.
_LIGHT = [
    "#3f66d4", "#eba40c", "#0a9b8f", "#741a5e", "#86c1f0", "#b0403c",
    "#22308f", "#a8740f", "#c67bdc", "#3f3a14", "#b0ae75", "#70668a",
]  # fmt: skip
_DARK = [
    "#7690f5", "#f2c51f", "#1fbab2", "#bd3b8e", "#b8e2f8", "#d96863",
    "#6a56d2", "#cc9320", "#e6a1f2", "#88672f", "#c0cb96", "#a67db4",
]  # fmt: skip
_LIGHT_BASICS = {
    "surface": "#ffffff", "ink": "#1f2328", "muted": "#59636e", "grid": "#e7eaee",
    "axis": "#a8b1bb", "base": "#a9b1bb", "soft": "#f5f7f9", "link": "#1f5fae",
}  # fmt: skip
_DARK_BASICS = {
    "surface": "#14181d", "ink": "#e6eaef", "muted": "#9ba6b2", "grid": "#282f37",
    "axis": "#55606c", "base": "#727d89", "soft": "#1c2229", "link": "#7db4f0",
}  # fmt: skip
COLOURS = 36
FONT = "system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif"

_SHAPES = f"""
.hw{{font:12px {FONT};font-variant-numeric:tabular-nums;max-width:100%;height:auto}}
.hw text{{fill:var(--ink)}}
.hw .muted{{fill:var(--muted)}}
.hw .title{{font-size:14px;font-weight:600}}
.hw .small{{font-size:11px}}
.hw .badge{{font-size:9px;font-weight:700;fill:var(--surface)}}
.hw .still{{pointer-events:none}}
.hw .end{{text-anchor:end}}
.hw .mid{{text-anchor:middle}}
.hw .halo{{paint-order:stroke;stroke:var(--surface);stroke-width:3px;stroke-linejoin:round}}
.hw .grid{{stroke:var(--grid);shape-rendering:crispEdges}}
.hw .axis{{stroke:var(--axis);shape-rendering:crispEdges}}
.hw .limit{{stroke:var(--ink);stroke-width:1.25;stroke-dasharray:5 4}}
.hw .line{{fill:none;stroke-width:1.8;stroke-linejoin:round;stroke-linecap:round}}
.hw .area{{fill-opacity:.94;stroke:var(--surface);stroke-width:.6}}
.hw .dot{{fill-opacity:.75;stroke:var(--surface);stroke-width:.75}}
.hw .mark{{fill:var(--ink);stroke:var(--surface);stroke-width:1.5}}
.hw .base{{fill:var(--base)}}
.hw .hit{{fill:transparent}}
.hw .hit:hover{{fill:var(--ink);fill-opacity:.07}}
"""


def colour(index: int) -> int:
    """Return the palette index; past the last colour it starts again."""
    return index % COLOURS


def rules(used: Iterable[int] = range(COLOURS)) -> str:
    """Return the CSS rules of the charts, with colour classes only for the used indexes."""
    colours = (
        f".hw .f{i}{{fill:var(--c{i})}}.hw .s{i}{{stroke:var(--c{i})}}.hw .o{i}{{fill:var(--o{i})}}"
        for i in used
    )
    return _SHAPES + "\n".join(colours) + "\n"


def _channels(colour: str) -> list[int]:
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]


def _blend(colour: str, other: str, share: float) -> str:
    pairs = zip(_channels(colour), _channels(other), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)


def _luminance(colour: str) -> float:
    linear = [
        c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4
        for c in _channels(colour)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _ink_on(colour: str) -> str:
    # Black and white text contrast equally with a surface of this luminance (WCAG 2).
    return "#ffffff" if _luminance(colour) < 0.19 else "#15181c"


def _variables(basics: dict[str, str], palette: list[str]) -> dict[str, str]:
    """Return the variables of one mode; colours past the palette are paler and deeper variants."""
    paler = [_blend(c, basics["surface"], 0.45) for c in palette]
    deeper = [_blend(c, basics["ink"], 0.4) for c in palette]
    every = palette + paler + deeper
    fills = {f"c{i}": c for i, c in enumerate(every)}
    return basics | fills | {f"o{i}": _ink_on(c) for i, c in enumerate(every)}


LIGHT = _variables(_LIGHT_BASICS, _LIGHT)
DARK = _variables(_DARK_BASICS, _DARK)


def _root(scheme: str, variables: dict[str, str]) -> str:
    declared = ";".join(f"--{name}:{value}" for name, value in variables.items())
    return f":root{{color-scheme:{scheme};{declared}}}\n"


STYLE = (
    _root("light", LIGHT)
    # Print always uses the light mode, hence "screen".
    + f"@media screen and (prefers-color-scheme: dark){{{_root('dark', DARK)}}}\n"
    + rules()
)
