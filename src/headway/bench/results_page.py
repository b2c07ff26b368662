"""The HTML page of benchmark results."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headway.bench.figure import Figure
from headway.report.charts.plots import Mark, Series, lines
from headway.report.page import Section, table, write_page


def write_bench(to: Path, results: Sequence[dict[str, Any]], charts: Sequence[str]) -> None:
    """One section for each benchmark: its charts and its figures."""
    sections = []
    for result, chart in zip(results, charts, strict=True):
        rows = [_row(**figure) for figure in result["figures"]]
        figures = table(["figure", "value", "bar"], rows, numeric=(1, 2))
        about = f"{result['cores']} cores, score {result['score']:.2f} M/s."
        sections.append(Section(title=result["bench"], body=chart + figures, text=about))
    missed = [f["name"] for r in results for f in r["figures"] if not f["pass"]]
    lead = f"Missed: {', '.join(missed)}." if missed else "All bars are met."
    write_page(to, "Benchmarks", lead, sections)


def _row(name: str, value: float, unit: str, bar: float | None, **_: Any) -> list[str]:
    return [name, f"{value:.4g} {unit}", "" if bar is None else f"{bar:g}"]


def growth_charts(figures: Sequence[Figure]) -> str:
    """One chart for each axis, one line for each series."""
    placed = [f for f in figures if f.x is not None]
    charts = []
    for axis in dict.fromkeys(f.axis for f in placed):
        here = [f for f in placed if f.axis == axis]
        bars = [Mark(x=f.x or 0.0, y=f.bar, text=f"bar {f.bar:g}") for f in here if f.bar]
        series = [
            Series(name=name, points=[(f.x or 0.0, f.value) for f in here if f.series == name])
            for name in dict.fromkeys(f.series for f in here)
        ]
        charts.append(lines(series, x=axis, y=here[0].unit, marks=bars, title=here[0].title))
    return "".join(charts)
