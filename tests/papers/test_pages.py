"""docs/papers/reproduced*.md are what `scripts/reproduced` writes.

The fast tier makes the cheapest sections again; HEADWAY_REPRODUCED names others, or `all`
(`scripts/evidence reproduced`).
"""

import os
import re
from pathlib import Path

import pytest

from headway.papers.claims import readings
from headway.papers.experiments import experiments, select
from headway.papers.readings import read_otherwise
from headway.papers.render.markdown import inputs, section
from headway.papers.render.tables import count_agreement
from headway.papers.runner import reproduce

PAPERS = Path(__file__).resolve().parents[2] / "docs" / "papers"
PAGES = ("reproduced.md", "reproduced-distributed.md")
CHEAP = "E-F1 E-S1"
WANTED = os.environ.get("HEADWAY_REPRODUCED", CHEAP)


def text(name):
    return (PAPERS / name).read_text(encoding="utf-8")


@pytest.mark.usefixtures("one_core")
@pytest.mark.untraced
def test_the_sections_are_what_the_experiments_give():
    page = "".join(map(text, PAGES))
    for one in reproduce(select([] if WANTED == "all" else WANTED.split()), range(10)):
        assert section(one) in page, f"{one.experiment.id}: run scripts/reproduced"


@pytest.mark.parametrize("name", PAGES)
def test_the_pages_are_made_from_these_tables(name):
    made_from = inputs(distributed="distributed" in name)
    assert f"(inputs {made_from})" in text(name), "run scripts/reproduced"


@pytest.mark.parametrize("name", PAGES)
def test_the_total_is_the_sum_of_the_sections(name):
    whole = re.sub(r"\s+", " ", text(name))
    found = re.findall(r"(\d+) of (\d+) published figures agree", whole)
    total, *parts = [(int(a), int(b)) for a, b in found]
    assert total == tuple(map(sum, zip(*parts, strict=True)))
    index = (PAPERS.parent / "index.md").read_text(encoding="utf-8")
    entry = index.split(f"(papers/{name})")[1].split("\n- ")[0]
    assert f"{total[0]} of {total[1]} published figures agree" in entry


def test_of_the_figures_first_counted_for_e_f1_13_of_19_agree():
    """Later, the ranges of figures 6.2 to 6.4 and the slope by α were counted too; these miss."""
    part = text("reproduced.md").split("## E-F1")[1].split("## E-F2")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in part.splitlines()]
    counted = [row for row in rows if row and row[-1] in ("agrees", "misses")]
    later = [row for row in counted if "figure 6" in row[0] or "by α" in row[0]]
    assert [row[-1] for row in later] == ["misses"] * 4
    first = [row[-1] for row in counted if row not in later]
    assert (len(first), first.count("agrees")) == (19, 13)


def test_every_reading_is_on_the_page_of_its_paper_with_both_outcomes():
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in "".join(map(text, PAGES)).splitlines()
        if ":paper | `" in line
    ]
    assert {(row[0], row[1]) for row in rows} == {
        (f"{r.policy}:paper", f"`{r.switch}`") for r in readings()
    }
    for policy, switch, figures, agree, otherwise, _ in rows:
        page = text(f"{policy.removesuffix(':paper')}.md")
        (line,) = [row for row in page.splitlines() if switch in row and " figures" in row]
        assert f"{agree} and {otherwise} of {figures} figures" in line


def rows(part, name):
    """The rows of a section of the results that begin with this name."""
    section = "".join(map(text, PAGES)).split(f"## {part}\n")[1].split("\n## ")[0]
    listed = [line for line in section.splitlines() if line.startswith(f"| {name} |")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in listed]


def test_changes_on_the_pages_of_papers_are_those_of_the_results():
    flowcon2, dragon = (re.sub(r"\s+", " ", text(f"{name}.md")) for name in ("flowcon2", "dragon"))
    found = re.findall(r"(-\d+) % on [^()%]*\((E-G\d)\)", flowcon2)
    assert [part for _, part in found] == ["E-G2", "E-G1", "E-G3"]
    for change, part in found:
        (row,) = rows(part, "paper")
        assert float(change) == pytest.approx(float(row[6].split()[0]), abs=0.51)
    found = re.findall(r"(-\d+) % in (E-D\d)", dragon)
    assert [part for _, part in found] == ["E-D1", "E-D2"]
    for change, part in found:
        (row,) = rows(part, "elapsed")
        assert float(change) == pytest.approx(float(row[5].split()[0]), abs=0.51)


@pytest.mark.usefixtures("one_core")
@pytest.mark.untraced
def test_another_reading_changes_only_the_paper_mode():
    e = experiments()["E-F1"]
    other = e.reading("cold_start=unknown")
    assert (other.baseline, len(other.arms)) == (e.baseline, 1 + len(e.settings))
    assert all(arm.endswith(",cold_start=unknown") for arm in other.arms[1:])
    found = reproduce([e], [0])
    (outcome, *_) = read_otherwise(found)
    assert outcome.reading.switch == "cold_start=unknown"
    assert outcome.counted == {"E-F1": 23}
    assert outcome.otherwise["E-F1"] < outcome.agree["E-F1"]
    assert outcome.agree["E-F1"] >= 13
    assert f"{outcome.agree['E-F1']} of 23" in count_agreement(found)
