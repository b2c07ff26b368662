"""The documentation names files, modules and symbols that exist."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

from headway.spec.load import read_workload

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])
CURRENT = [p for p in PAGES if p.parent.name != "decisions"]
"""Decision records describe the code of their time."""
MODULE = re.compile(r"`((?:\w+/)+\w+\.py)`")
SYMBOL = re.compile(r"`(_?[A-Za-z]\w*)`")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_relative_links_lead_somewhere(page):
    links = re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", CURRENT, ids=name)
def test_modules_exist(page):
    modules = MODULE.findall(page.read_text())
    missing = [
        m for m in modules if not any((r / m).exists() for r in (ROOT, ROOT / "src/headway"))
    ]
    assert missing == []


@pytest.mark.parametrize("page", sorted((DOCS / "papers").glob("[!r]*.md")), ids=name)
def test_symbols_named_after_a_module_are_in_it(page):
    """In a table cell such as "`policy/share/flowcon.py`, `decide`; `core/...`"."""
    missing = []
    for cell in re.findall(r"`\w+/[^|]*\|", page.read_text()):
        marks = [(m.start(), m.end(), m[1]) for m in MODULE.finditer(cell)]
        for (_, start, module), (end, _, _) in pairwise([*marks, (len(cell), 0, "")]):
            code = (ROOT / "src/headway" / module).read_text()
            named = SYMBOL.findall(re.sub(r"`\w+=\w+`", "", cell[start:end]))
            missing += [f"{module}: {s}" for s in named if not re.search(rf"\b{s}\b", code)]
    assert missing == []


EXAMPLES = [
    (page, text)
    for page in CURRENT
    for text in re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)
    if text.startswith("apiVersion:")
]


@pytest.mark.parametrize(("page", "text"), EXAMPLES, ids=[name(page) for page, _ in EXAMPLES])
def test_examples_are_valid(page, text, tmp_path):
    path = tmp_path / "example.yaml"
    path.write_text(text)
    assert read_workload(path).jobs, name(page)


def test_the_index_lists_every_page():
    index = (DOCS / "index.md").read_text()
    pages = [str(p.relative_to(DOCS)) for p in DOCS.rglob("*.md") if p.name != "index.md"]
    assert [p for p in sorted(pages) if f"({p})" not in index] == []


def test_a_record_that_another_one_supersedes_says_so_at_its_top():
    records = {p.name: p.read_text() for p in (DOCS / "decisions").glob("*.md")}
    silent = []
    for newer, text in records.items():
        _, _, superseded = text.partition("**Supersedes**")
        for older in re.findall(r"\((\d{4}-[\w-]+\.md)\)", superseded.partition("\n\n")[0]):
            top = records[older].split("\n\n")[1]
            if not (top.startswith("**Superseded by") and newer in top):
                silent.append(older)
    assert silent == []
