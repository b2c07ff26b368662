"""Charts and pages are well formed, accurate and reproducible."""

import math
import re
import xml.etree.ElementTree as ET
from itertools import combinations, pairwise

import pytest
from doc_pictures import scatter, standalone

from headway.report.charts.axes import WIDTH, round_range, ticks
from headway.report.charts.bars import bars
from headway.report.charts.curves import downsample, value_at
from headway.report.charts.elements import elide, number, text_width, tick_labels
from headway.report.charts.gantt import Span, gantt
from headway.report.charts.plots import Mark, Series, lines, stack
from headway.report.charts.style import STYLE
from headway.report.page import Section, page, table

NASTY = "<job> & \"co\" 'x' \x00"
SVG = "{http://www.w3.org/2000/svg}"


def every_chart(name: str = "job") -> dict[str, str]:
    series = [
        Series(name=name, points=[(0, 1), (5, 3), (10, 2)]),
        Series(name=name + "2", points=[(0, 2), (4, 1), (10, 0.5)]),
    ]
    spans = [
        Span(row=name, since=0, until=9, label=name, mark="M"),
        Span(row=name, since=3, until=4, label=name),
    ]
    marks = [Mark(x=5, y=3, text=name)]
    return {
        "lines": lines(series, x=name, y=name, title=name, marks=marks),
        "stack": stack(series, x=name, y=name, title=name, capacity=5),
        "scatter": scatter(series, x=name, y=name, title=name, diagonal=True),
        "gantt": gantt(spans, x=name, rows=[name], title=name),
        "bars": bars([name], {name: [1.5]}, y=name, title=name),
    }


def parse(svg: str) -> ET.Element:
    return ET.fromstring(svg)  # noqa: S314 - our own output


def by_class(svg: str, word: str) -> list[ET.Element]:
    return [e for e in parse(svg).iter() if word in e.get("class", "").split()]


def vertices(data: str) -> list[list[tuple[float, float]]]:
    """Return the corners of each closed piece of a path."""
    pieces: list[list[tuple[float, float]]] = []
    x = y = 0.0
    for command, rest in re.findall(r"([MLHVZ])([^MLHVZ]*)", data):
        values = [float(v) for v in rest.split()]
        if command == "Z":
            continue
        if command == "M":
            pieces.append([])
        x = values[0] if command in "MLH" else x
        y = values[-1] if command in "MLV" else y
        pieces[-1].append((x, y))
    return pieces


def pixels_by_label(svg: str) -> dict[float, float]:
    """Return where the numbers of the vertical axis are drawn."""
    labels = [e for e in by_class(svg, "end") if "muted" in e.get("class", "")]
    return {float(e.text or ""): float(e.get("y", "")) - 4 for e in labels}


@pytest.mark.parametrize("kind", every_chart())
def test_every_chart_is_well_formed_and_escapes_its_text(kind: str) -> None:
    svg = every_chart(NASTY)[kind]
    shown = [e.text or "" for e in parse(svg).iter() if e.tag in {SVG + "text", SVG + "title"}]
    assert any("<job> & \"co\" 'x' \N{REPLACEMENT CHARACTER}" in text for text in shown)
    assert "<job>" not in svg


@pytest.mark.parametrize("kind", every_chart())
def test_the_same_input_gives_the_same_bytes(kind: str) -> None:
    assert every_chart()[kind] == every_chart()[kind]


@pytest.mark.parametrize("kind", every_chart())
def test_coordinates_have_at_most_two_decimals(kind: str) -> None:
    values = [v for e in parse(every_chart()[kind]).iter() for v in e.attrib.values()]
    assert any(re.search(r"\d\.\d", v) for v in values)
    assert not any(re.search(r"\d\.\d{3,}", v) for v in values)


@pytest.mark.parametrize("kind", every_chart())
def test_every_class_of_a_chart_is_coloured_by_the_style(kind: str) -> None:
    used = {c for e in parse(every_chart()[kind]).iter() for c in e.get("class", "").split()}
    assert used
    assert all(re.search(rf"\.{re.escape(c)}[{{:]", STYLE) for c in used)


@pytest.mark.parametrize("kind", every_chart())
def test_a_standalone_chart_has_its_own_light_colours_and_background(kind: str) -> None:
    svg = standalone(every_chart()[kind])
    assert svg.startswith("<?xml")
    assert "var(" not in svg
    root = parse(svg.partition("\n")[2])
    assert root[0].tag == SVG + "style"
    assert root[1].get("fill") == "#ffffff"
    for word in {c for e in root.iter() for c in e.get("class", "").split()}:
        assert re.search(rf"\.{word}[{{:]", root[0].text or ""), word


def test_values_that_are_not_finite_are_skipped() -> None:
    points = [(0.0, 1.0), (1.0, math.nan), (2.0, math.inf), (math.nan, 3.0), (3.0, 2.0)]
    good = [(0.0, 1.0), (3.0, 2.0)]
    for kind in (lines, stack, scatter):
        with_bad = kind([Series(name="a", points=points)], x="x", y="y")
        assert with_bad == kind([Series(name="a", points=good)], x="x", y="y")
    drawn = bars(["a", "b", "c"], {"s": [1.0, math.nan, None]}, y="y")
    assert len(by_class(drawn, "f0")) == 2  # the legend's sample and the only bar
    spans = [Span(row="r", since=0, until=v, label="a") for v in (5.0, math.inf, math.nan)]
    assert gantt(spans, x="x", rows=["r"]) == gantt(spans[:1], x="x", rows=["r"])


def test_empty_input_gives_a_chart_without_data() -> None:
    empty = [
        lines([], x="x", y="y"),
        lines([Series(name="a", points=[(0, math.nan)])], x="x", y="y"),
        stack([], x="x", y="y"),
        scatter([], x="x", y="y"),
        bars([], {}, y="y"),
        gantt([], x="x", rows=[]),
    ]
    for svg in empty:
        assert "no data" in "".join(parse(svg).itertext())


def test_stacked_areas_lie_on_each_other_and_add_up() -> None:
    first = Series(name="a", points=[(0, 30), (10, 50), (20, 0)])
    second = Series(name="b", points=[(0, 20), (10, 50), (20, 0)])
    svg = stack([first, second], x="x", y="y")
    lower, upper = [vertices(e.get("d", ""))[0] for e in by_class(svg, "area")]
    at = pixels_by_label(svg)
    unit = (at[0] - at[100]) / 100
    expected_lower = [at[0], at[0] - 30 * unit, at[0] - 50 * unit]
    expected_upper = [at[0] - 30 * unit, at[0] - 50 * unit, at[0] - 100 * unit]
    assert sorted({y for _, y in lower}, reverse=True) == pytest.approx(expected_lower, abs=0.02)
    assert sorted({y for _, y in upper}, reverse=True) == pytest.approx(expected_upper, abs=0.02)


def test_a_stacked_series_that_ends_leaves_no_area_behind() -> None:
    ended = Series(name="a", points=[(0, 1), (10, 0), (20, 2), (30, 0)])
    svg = stack([ended, Series(name="b", points=[(0, 1), (40, 1)])], x="x", y="y")
    pieces = vertices(by_class(svg, "area")[0].get("d", ""))
    assert len(pieces) == 2
    assert max(x for x, _ in pieces[0]) < min(x for x, _ in pieces[1])


def test_spans_that_overlap_in_a_row_do_not_overlap_in_the_drawing() -> None:
    spans = [Span(row="n", since=i * 7 % 50, until=i * 7 % 50 + 12, label=f"{i}") for i in range(9)]
    rects = parse(gantt(spans, x="x", rows=["n"])).iter(SVG + "rect")
    boxes = [
        [float(rect.get(k, "")) for k in ("x", "y", "width", "height")]
        for rect in rects
        if rect.find(SVG + "title") is not None
    ]
    assert len(boxes) == len(spans)
    assert len({y for _, y, _, _ in boxes}) > 1
    for (x1, y1, w1, h1), (x2, y2, w2, h2) in combinations(boxes, 2):
        apart = x1 + w1 <= x2 or x2 + w2 <= x1 or y1 + h1 <= y2 or y2 + h2 <= y1
        assert apart


def test_spans_in_sequence_share_a_lane_and_equal_spans_do_not() -> None:
    def tops(*spans: Span) -> list[str]:
        rects = parse(gantt(spans, x="x", rows=["n"])).iter(SVG + "rect")
        return [e.get("y", "") for e in rects if e.find(SVG + "title") is not None]

    one = Span(row="n", since=0, until=5, label="a long enough label", colour=1)
    two = Span(row="n", since=5, until=10, label="a long enough label", colour=1)
    assert len(set(tops(one, two))) == 1
    assert len(set(tops(one, one))) == 2


def test_a_bar_too_short_for_its_label_keeps_it_as_hover_text_only() -> None:
    spans = [
        Span(row="n", since=0, until=1000, label="wide"),
        Span(row="n", since=1000, until=1001, label="slim"),
    ]
    root = parse(gantt(spans, x="x", rows=["n"]))
    inside = [e.text for e in root.iter(SVG + "text") if "still" in e.get("class", "")]
    assert inside == ["wide"]
    assert any((e.text or "").startswith("slim") for e in root.iter(SVG + "title"))


def test_a_bar_names_its_replica_where_there_is_room() -> None:
    spans = [
        Span(row="n", since=0, until=1000, label="first", detail="worker-0"),
        Span(row="n", since=1000, until=1100, label="first", detail="worker-1"),
    ]
    root = parse(gantt(spans, x="x", rows=["n"]))
    inside = [e.text for e in root.iter(SVG + "text") if "still" in e.get("class", "")]
    assert inside == ["first worker-0", "first"]
    hovers = [e.text or "" for e in root.iter(SVG + "title")]
    assert any(text.startswith("first worker-1\n") for text in hovers)


def test_downsampling_keeps_the_extremes_and_the_ends() -> None:
    points = [(float(i), math.sin(i)) for i in range(50_000)]
    points[12_345] = (12_345.0, 9.0)
    points[33_333] = (33_333.0, -9.0)
    kept = downsample(points, 700)
    assert len(kept) <= 4 * 701
    assert {(12_345.0, 9.0), (33_333.0, -9.0), points[0], points[-1]} <= set(kept)
    assert all(a < b for (a, _), (b, _) in pairwise(kept))


def test_a_large_series_is_drawn_small() -> None:
    points = [(float(i), float(i * 7919 % 1000)) for i in range(100_000)]
    assert len(lines([Series(name="a", points=points)], x="x", y="y")) < 100_000
    assert len(stack([Series(name="a", points=points)], x="x", y="y")) < 150_000


def test_a_series_has_its_requested_colour_in_every_chart() -> None:
    series = Series(name="a", points=[(0, 1), (1, 2)], colour=7)
    assert len(by_class(lines([series], x="x", y="y"), "s7")) == 2
    assert by_class(stack([series], x="x", y="y"), "f7")
    span = Span(row="r", since=0, until=1, label="", colour=7)
    assert by_class(gantt([span], x="x", rows=["r"]), "f7")


def test_the_baseline_is_grey_and_the_others_keep_their_colours() -> None:
    svg = bars(["a"], {"old": [1], "new": [2]}, y="y", baseline="old")
    assert len(by_class(svg, "base")) == 2
    assert len(by_class(svg, "f1")) == 2
    assert not by_class(svg, "f0")


def test_bar_heights_are_in_proportion() -> None:
    svg = bars(["a", "b"], {"s": [100, 50]}, y="y")
    tall, short = [float(e.get("height", "")) for e in by_class(svg, "f0")][1:]
    assert tall == pytest.approx(2 * short, abs=0.03)


def test_names_are_rotated_when_there_are_many_groups() -> None:
    few, many = [bars(["g"] * n, {"s": [1.0] * n}, y="y") for n in (12, 13)]
    assert "rotate(" not in few
    assert "rotate(" in many


def test_hovering_over_a_chart_shows_the_values_there() -> None:
    series = [Series(name="a", points=[(0, 10), (4, 20)]), Series(name="b", points=[(4, 7)])]
    texts = [e[0].text for e in by_class(lines(series, x="t", y="y"), "hit")]
    assert texts == ["t: 0\na: 10", "t: 4\na: 20\nb: 7"]


def test_a_value_between_points_is_held_or_interpolated() -> None:
    points = [(0.0, 10.0), (4.0, 20.0)]
    assert value_at(points, 1, step=True) == 10
    assert value_at(points, 1, step=False) == 12.5
    assert value_at(points, -1, step=True) is None
    assert value_at(points, 5, step=False) is None


def test_ticks_are_round() -> None:
    assert ticks(0, 394, 8) == [0, 50, 100, 150, 200, 250, 300, 350]
    assert round_range(3, 97, 5) == (0, 100)
    assert tick_labels([0, 0.1, 0.2, 0.1 * 3]) == ["0.0", "0.1", "0.2", "0.3"]
    assert tick_labels([0, 2.5e6, 5e6]) == ["0.0", "2.5M", "5.0M"]
    assert number(-1234.5678) == "\N{MINUS SIGN}1,234.6"


@pytest.mark.parametrize("value", [0.0, 1e-9, 5.0, -3.0, 1e12])
def test_a_single_value_still_has_axes(value: float) -> None:
    svg = lines([Series(name="a", points=[(1, value)])], x="x", y="y")
    assert by_class(svg, "f0")
    assert len(by_class(svg, "end")) >= 2


def test_a_long_name_is_shortened_with_the_whole_name_on_hover() -> None:
    name = "a-very-long-training-job-name-that-does-not-fit-anywhere-17"
    short = elide(name, 100)
    assert text_width(short) <= 100
    assert short.startswith("a-v")
    assert short.endswith("17")
    root = parse(lines([Series(name=name, points=[(0, 1)])], x="x", y="y"))
    assert name in [e.text for e in root.iter(SVG + "title")]


def test_sixty_legend_entries_wrap_within_the_width() -> None:
    series = [Series(name=f"job number {i}", points=[(0, 1), (1, 1)]) for i in range(60)]
    svg = stack(series, x="x", y="y", title="t")
    entries = [e for e in parse(svg).iter(SVG + "text") if "job number" in "".join(e.itertext())]
    assert len(entries) == 60
    assert len({e.get("y") for e in entries}) > 5
    assert all(float(e.get("x", "")) + text_width(e.text or "") <= WIDTH for e in entries)
    lowest = max(float(e.get("y", "")) for e in entries)
    tops = [vertices(e.get("d", ""))[0] for e in by_class(svg, "area")]
    assert min(y for piece in tops for _, y in piece) > lowest


def test_the_page_is_one_complete_escaped_document() -> None:
    chart = every_chart()["lines"]
    html = page(NASTY, "1 < 2", [Section(title="A & B", body=chart, text="<why>")], "<end>")
    assert html.startswith("<!DOCTYPE html>")
    assert '<meta name="viewport"' in html
    assert "prefers-color-scheme: dark" in html
    assert chart in html
    assert "<job>" not in html
    assert "1 &lt; 2" in html
    assert "A &amp; B" in html
    assert "&lt;why&gt;" in html
    assert "&lt;end&gt;" in html
    assert "<script" not in html
    assert not re.search(r'(src|href)="http', html)
    html.encode("utf-8")


def test_contents_link_to_more_than_three_sections() -> None:
    sections = [Section(title=f"Part {i}", body="") for i in range(4)]
    assert "<nav" not in page("t", "", sections[:3])
    html = page("t", "", sections)
    targets = re.findall(r'href="#([^"]+)"', html)
    assert len(targets) == 4
    assert all(f'id="{target}"' in html for target in targets)


def test_a_table_escapes_aligns_and_highlights() -> None:
    html = table(["job", "time"], [["<a>", "1"], ["b", "2"]], numeric={1}, highlight={(1, 1)})
    root = parse(html)
    cells = [(e.text, e.get("class")) for e in root.iter() if e.tag in {"td", "th"}]
    assert cells[:2] == [("job", None), ("time", "number")]
    assert cells[2:] == [("<a>", None), ("1", "number"), ("b", None), ("2", "number best")]
