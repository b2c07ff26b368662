"""Elements of a chart: shapes, and text with its escaping, width and number formats."""

import html
import re
from collections.abc import Sequence

Point = tuple[float, float]
# XML 1.0 cannot represent these characters, and UTF-8 cannot represent lone surrogates.
_UNWRITABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_NARROW = frozenset("ijltfrI.,:;|!'()[]{} /-")
_WIDE = frozenset("mwMW@%")
_MINUS = "\N{MINUS SIGN}"
_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"))


def escape(text: str) -> str:
    """Return the text ready for XML and HTML, in elements and in attributes."""
    return html.escape(_UNWRITABLE.sub("\N{REPLACEMENT CHARACTER}", text))


def text_width(text: str, size: float = 12) -> float:
    """Estimate the width of a text; fonts differ, so this is an upper estimate."""
    return size * sum(_share(char) for char in text)


def _share(char: str) -> float:
    if char in _NARROW:
        return 0.36
    if ord(char) >= 0x2E80:
        return 1.05
    return 0.92 if char in _WIDE else 0.7 if char.isupper() else 0.6


def elide(text: str, width: float, size: float = 12) -> str:
    """Shorten a text to a width in its middle: names often differ at their end."""
    if text_width(text, size) <= width:
        return text
    for kept in range(len(text) - 1, 0, -1):
        tail = kept // 3
        short = text[: kept - tail] + "…" + text[len(text) - tail :]
        if text_width(short, size) <= width:
            return short
    return "…"


def coord(value: float) -> str:
    """Return a coordinate with at most two decimals."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def number(value: float) -> str:
    """Return a value with five significant digits."""
    text = f"{value:,.0f}" if 1e5 <= abs(value) < 1e6 else f"{value:,.5g}"
    return text.replace("-", _MINUS)


def tick_labels(ticks: Sequence[float]) -> list[str]:
    """Return the labels of an axis, with one unit and the fewest exact decimals."""
    largest = max((abs(tick) for tick in ticks), default=0.0)
    if largest >= 1e15 or 0 < largest < 1e-4:
        return [number(tick) for tick in ticks]
    unit, suffix = next(((u, s) for u, s in _UNITS if largest >= u), (1.0, ""))
    for decimals in range(8):
        texts = [f"{tick / unit:,.{decimals}f}" for tick in ticks]
        read = [float(text.replace(",", "")) * unit for text in texts]
        if all(abs(a - b) <= 1e-9 * largest for a, b in zip(read, ticks, strict=True)):
            break
    texts = [text.replace("-", _MINUS) for text in texts]
    return [text + suffix * (tick != 0) for text, tick in zip(texts, ticks, strict=True)]


def text_element(
    x: float, y: float, text: str, css: str = "", *, full: str = "", rotate: int = 0
) -> str:
    """Return a text element; ``full`` is shown on hover if ``text`` is a shortened form."""
    hover = _hover(full if full != text else "")
    transform = f' transform="rotate({rotate} {coord(x)} {coord(y)})"' if rotate else ""
    css = f' class="{css}"' if css else ""
    return f'<text x="{coord(x)}" y="{coord(y)}"{css}{transform}>{hover}{escape(text)}</text>'


def rect(css: str, corner: Point, size: Point, *, radius: float = 0, hover: str = "") -> str:
    x, y, width, height = map(coord, (*corner, *size))
    box = f'x="{x}" y="{y}" width="{width}" height="{height}"'
    rounded = f' rx="{coord(radius)}"' if radius else ""
    return _shape("rect", f'class="{css}" {box}{rounded}', hover)


def circle(css: str, x: float, y: float, radius: float, hover: str = "") -> str:
    place = f'cx="{coord(x)}" cy="{coord(y)}" r="{coord(radius)}"'
    return _shape("circle", f'class="{css}" {place}', hover)


def rule(css: str, left: float, right: float, y: float) -> str:
    """Return a horizontal line."""
    return f'<path class="{css}" d="M{coord(left)} {coord(y)}H{coord(right)}"/>'


def _shape(tag: str, attributes: str, hover: str) -> str:
    return f"<{tag} {attributes}>{_hover(hover)}</{tag}>" if hover else f"<{tag} {attributes}/>"


def _hover(text: str) -> str:
    return f"<title>{escape(text)}</title>" if text else ""
