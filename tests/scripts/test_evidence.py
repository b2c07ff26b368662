"""`scripts/evidence` and `scripts/claims`, in a small repository of their own."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from evidence_lines import pooled, problems

ROOT = Path(__file__).parents[2]
BENCH = """#!{python}
import json, pathlib, sys
value = float((pathlib.Path(__file__).parent.parent / "value").read_text())
figures = [{{"name": "x", "value": value, "unit": "", "bar": 1.0, "pass": value <= 1}}]
print(json.dumps({{"figures": figures, "score": 1.0}}))
sys.exit(value > 1)
"""


@pytest.fixture
def repository(tmp_path):
    root = tmp_path / "repository"
    for folder in ("scripts", "bin", "evidence", "src/headway/core"):
        (root / folder).mkdir(parents=True)
    for script in ("evidence", "evidence_lines.py"):
        shutil.copy(ROOT / "scripts" / script, root / "scripts")
    (root / "bin" / "headway").write_text(BENCH.format(python=sys.executable))
    (root / "bin" / "headway").chmod(0o755)
    (root / ".gitignore").write_text("__pycache__\n.pytest_cache\n/value\n")
    # Otherwise the cache is in a folder above.
    (root / "pytest.ini").write_text("[pytest]\naddopts = -p no:schemathesis\n")
    (root / "src/headway/core/code.py").write_text("first = 1\n")
    git(root, "init", "--quiet")
    commit(root)
    return root


def git(root, *words):
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    command = ["git", "-C", str(root), *who, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def commit(root):
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--allow-empty", "--message", "x")
    return git(root, "rev-parse", "--short", "HEAD")


def evidence(root, *names, value=0.5):
    (root / "value").write_text(str(value))
    path = f"{root / 'bin'}{os.pathsep}{os.environ['PATH']}"
    command = [sys.executable, str(root / "scripts" / "evidence"), *names]
    env = {**os.environ, "PATH": path, "HEADWAY_STEAL": "1"}  # whatever this machine's is
    return subprocess.run(command, env=env, check=False).returncode


def lines(root, name):
    path = root / "evidence" / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_a_missed_bar_fails_again_until_it_is_met(repository):
    assert evidence(repository, "sim", value=2) == 1
    assert evidence(repository, "sim", value=2) == 1
    assert evidence(repository, "sim") == 0
    assert [line["pass"] for line in lines(repository, "sim")] == [False, False, True]


def test_a_tree_that_differs_from_its_commit_is_not_measured(repository):
    (repository / "src/headway/core/code.py").write_text("first = 2\n")
    assert evidence(repository, "sim") == 2
    assert lines(repository, "sim") == []


def test_steal_time_is_recorded_as_a_fraction(repository):
    evidence(repository, "sim")
    assert 0 <= lines(repository, "sim")[0]["steal"] <= 1


def test_a_measurement_of_crashes_without_a_crash_point_is_a_miss(repository):
    (repository / "tests/real").mkdir(parents=True)
    (repository / "tests/real/test_local.py").write_text("def test_crash(): pass\n")
    (repository / "scripts/test").write_text("#!/bin/sh\necho local\n")
    (repository / "scripts/test").chmod(0o755)
    commit(repository)
    assert evidence(repository, "crash") == 1
    assert lines(repository, "crash")[0]["crash_points"] == 0


def test_a_measurement_whose_cases_are_all_skipped_is_a_miss(repository):
    (repository / "tests/laws").mkdir(parents=True)
    skips = "import pytest\n\ndef test_law(): pytest.skip('not today')\n"
    (repository / "tests/laws/test_laws.py").write_text(skips)
    (repository / "scripts/test").write_text("#!/bin/sh\necho local\n")
    (repository / "scripts/test").chmod(0o755)
    commit(repository)
    assert evidence(repository, "laws") == 1


def test_each_commit_is_fuzzed_with_other_cases(repository):
    (repository / "tests/bench").mkdir(parents=True)
    notes = "import os\n\ndef test_mutated():\n    with open('value', 'w') as file:\n"
    notes += "        file.write(os.environ['HEADWAY_FUZZ_SEED'])\n"
    (repository / "tests/bench/test_fuzz.py").write_text(notes)
    (repository / "scripts/test").write_text("#!/bin/sh\necho local\n")
    (repository / "scripts/test").chmod(0o755)
    for _ in range(2):
        here = commit(repository)
        evidence(repository, "fuzz")
        assert (repository / "value").read_text() == here


def test_draws_are_pooled_until_a_policy_changes(repository):
    assert evidence(repository, "promises", value=1.4) == 1
    assert evidence(repository, "promises", value=0.4) == 0, "the mean of both is 0.9"
    first, second = lines(repository, "promises")
    assert (first["draw"], second["draw"]) == (first["commit"], f"{first['commit']}-2")
    assert second["draws"] == 2
    (repository / "src/headway/core/code.py").write_text("second = 2\n")
    commit(repository)
    assert evidence(repository, "promises", value=1.1) == 1
    assert lines(repository, "promises")[-1]["draws"] == 1


def test_figures_without_a_bar_are_not_pooled():
    one = {"name": "a", "value": 1.0, "bar": 2.0}
    other = {"name": "a", "value": 4.0, "bar": 2.0}
    free = {"name": "b", "value": 9.0, "bar": None}
    assert pooled([[one, free], [other, free]]) == [
        {"name": "a", "value": 2.5, "bar": 2.0, "pass": False}
    ]


@pytest.fixture
def measured(repository):
    """A repository with a line of evidence, and the commit of that line."""
    evidence(repository, "decide")
    return repository, lines(repository, "decide")[0]["commit"]


def test_a_claim_names_a_line_that_exists(measured):
    root, at = measured
    assert problems(f"3 ms (evidence/decide.jsonl at {at})", root) == []
    assert problems("3 ms (evidence/decide.jsonl)", root)
    assert problems("3 ms (evidence/decide.jsonl at 1234567)", root)


def test_a_claim_about_code_that_has_changed_since_says_so(measured):
    root, at = measured
    (root / "src/headway/core/code.py").write_text("second = 2\n")
    commit(root)
    claim = f"3 ms (evidence/decide.jsonl at {at}"
    assert problems(f"{claim})", root)
    assert problems(f"{claim}, before later\nchanges)", root) == []


def test_a_claim_about_unchanged_code_does_not_excuse_itself(measured):
    root, at = measured
    assert problems(f"(evidence/decide.jsonl at {at}, before later changes)", root)


def test_a_claim_of_a_line_that_missed_says_so(repository):
    evidence(repository, "decide", value=2)
    at = lines(repository, "decide")[0]["commit"]
    assert problems(f"(evidence/decide.jsonl at {at})", repository)
    assert problems(f"(evidence/decide.jsonl at {at}, missed)", repository) == []


CASES = """
import pytest

def test_runs(): pass

def test_lacks(): pytest.skip("no writable cgroup here")

def test_undeclared(): pytest.skip("capability not declared: scale")

def test_tool(): pytest.skip("tool not installed: helm")
"""


@pytest.mark.parametrize(("required", "failed"), [("local", 1), ("docker", 0)])
def test_a_case_that_lacks_its_platform_fails_in_a_required_tier(tmp_path, required, failed):
    (tmp_path / "test_local_cases.py").write_text(CASES)
    shutil.copy(ROOT / "tests/real/conftest.py", tmp_path)
    words = ["-q", "-rs", "-p", "no:cacheprovider", "-p", "no:schemathesis", "--rootdir", tmp_path]
    path = os.pathsep.join(str(ROOT / name) for name in ("tests/real", "scripts"))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *map(str, words), str(tmp_path)],
        env={**os.environ, "HEADWAY_REQUIRE": required, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == failed, done.stdout
    assert f"{3 - failed} skipped" in done.stdout
    assert ("local is required" in done.stdout) == bool(failed)
