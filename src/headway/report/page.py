"""HTML reports: sections of text, tables and charts in one self-contained file."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.errors import ConfigError
from headway.report.charts.elements import escape
from headway.report.charts.style import FONT, STYLE

_LAYOUT = f"""
*{{box-sizing:border-box}}
body{{margin:0;background:var(--surface);color:var(--ink);font:16px/1.55 {FONT};
-webkit-text-size-adjust:100%}}
main{{max-width:860px;margin:0 auto;padding:40px 20px 56px}}
h1{{font-size:30px;line-height:1.2;letter-spacing:-.015em;margin:0 0 12px;text-wrap:balance}}
h2{{font-size:20px;line-height:1.3;letter-spacing:-.01em;margin:0 0 6px}}
p{{margin:0 0 14px;max-width:68ch}}
a{{color:var(--link)}}
.lead{{font-size:18px;margin-bottom:24px}}
.about,footer{{color:var(--muted);font-size:15px}}
nav{{background:var(--soft);border-radius:8px;padding:12px 18px;font-size:14px}}
nav ol{{margin:0;padding-left:20px;columns:2 240px;column-gap:32px}}
nav a{{text-decoration:none}}
nav a:hover{{text-decoration:underline}}
section{{margin-top:44px}}
.body,.scroll{{overflow-x:auto}}
.body>*+*{{margin-top:20px}}
.body .hw{{display:block;width:100%;min-width:540px}}
table{{border-collapse:collapse;font-size:14px;line-height:1.4;font-variant-numeric:tabular-nums}}
th,td{{padding:6px 14px 6px 0;text-align:left;border-bottom:1px solid var(--grid);
vertical-align:top}}
th{{color:var(--muted);font-weight:600;border-color:var(--axis);white-space:nowrap;
vertical-align:bottom}}
.number{{text-align:right;white-space:nowrap}}
.best{{font-weight:700}}
footer{{margin-top:56px;padding-top:16px;border-top:1px solid var(--grid);font-size:13px}}
@media print{{main{{max-width:none;padding:0}}nav{{display:none}}
svg,tr{{break-inside:avoid}}h2{{break-after:avoid}}.body,.scroll{{overflow:visible}}}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A section of a page: the body is HTML, title and text are plain."""

    title: str
    body: str
    text: str = ""


def table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    numeric: Collection[int] = (),
    highlight: Collection[tuple[int, int]] = (),
) -> str:
    """Return an HTML table; ``numeric`` are columns, ``highlight`` are (row, column) cells."""
    titles = "".join(_cell("th", text, number=i in numeric) for i, text in enumerate(header))
    lines = (
        "".join(
            _cell("td", text, number=i in numeric, best=(r, i) in highlight)
            for i, text in enumerate(row)
        )
        for r, row in enumerate(rows)
    )
    body = "\n".join(f"<tr>{line}</tr>" for line in lines)
    parts = f"<thead><tr>{titles}</tr></thead>\n<tbody>\n{body}\n</tbody>"
    return f'<div class="scroll"><table>\n{parts}\n</table></div>'


def page(title: str, lead: str, sections: Sequence[Section], footer: str = "") -> str:
    """Return a complete HTML document."""
    parts = [f"<h1>{escape(title)}</h1>"]
    if lead:
        parts.append(f'<p class="lead">{escape(lead)}</p>')
    if len(sections) > 3:
        parts.append(_contents(sections))
    parts += [_section(i, section) for i, section in enumerate(sections, start=1)]
    if footer:
        parts.append(f"<footer>{escape(footer)}</footer>")
    main = "\n".join(parts)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)}</title>
<style>
{STYLE}{_LAYOUT}</style>
</head>
<body>
<main>
{main}
</main>
</body>
</html>
"""


def write_page(
    to: Path, title: str, lead: str, sections: Sequence[Section], footer: str = ""
) -> None:
    """Write a complete HTML document; missing parent directories are created."""
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text(page(title, lead, sections, footer), encoding="utf-8")


def _cell(tag: str, text: str, *, number: bool, best: bool = False) -> str:
    css = " ".join(["number"] * number + ["best"] * best)
    opening = f'{tag} class="{css}"' if css else tag
    return f"<{opening}>{escape(text)}</{tag}>"


def _contents(sections: Sequence[Section]) -> str:
    links = "\n".join(
        f'<li><a href="#section-{i}">{escape(section.title)}</a></li>'
        for i, section in enumerate(sections, start=1)
    )
    return f'<nav aria-label="Contents"><ol>\n{links}\n</ol></nav>'


def _section(number: int, section: Section) -> str:
    about = f'<p class="about">{escape(section.text)}</p>\n' if section.text else ""
    opening = f'<section id="section-{number}">\n<h2>{escape(section.title)}</h2>\n'
    return f'{opening}{about}<div class="body">\n{section.body}\n</div>\n</section>'


def check_writable(path: Path) -> None:
    """Raise now, rather than after hours, if a page cannot be written to this path."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("ab").close()
    except OSError as error:
        raise ConfigError(
            f"cannot write the report: {error.strerror}",
            where=str(path),
            hint="give another path to --html",
        ) from None
