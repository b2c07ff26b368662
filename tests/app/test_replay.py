"""A journal decided again gives the same decisions."""

import json

import pytest
from typer.testing import CliRunner

from headway.cli import app
from scenarios import POLICIES

WORKLOAD = """
apiVersion: headway.dev/v1alpha1
kind: Workload
pool: specon
nodes: [{cpu: 1, count: 3}]
arrivals: {uniform: [0, 200], jobs: 12, models: any, checkpoint: sdk}
failures: [{at: 150, node: node-1, lasts: 40}]
seed: 3
"""


def call(*words, code=0):
    done = CliRunner().invoke(app, [str(w) for w in words])
    assert done.exit_code == code, (done.output, done.exception)
    return done


@pytest.fixture
def workload(tmp_path):
    path = tmp_path / "w.yaml"
    path.write_text(WORKLOAD)
    return path


@pytest.mark.parametrize("policy", [*POLICIES, "srpt", "spread"])
def test_replay_of_any_policy_shows_no_difference(tmp_path, workload, policy):
    journal = tmp_path / "journal.jsonl"
    call("simulate", workload, "--policy", policy, "--journal", journal)
    assert "no difference" in call("replay", journal).stdout


def test_another_policy_shows_what_it_would_have_done(tmp_path, workload):
    journal = tmp_path / "journal.jsonl"
    call("simulate", workload, "--policy", "fair", "--journal", journal)
    assert "cycles differ under las" in call("replay", journal, "--policy", "las").stdout
    found = json.loads(call("replay", journal, "--policy", "las", "--json").stdout)
    assert found[0]["now"][0]["is"] == "SetShare"
    assert found[0]["then"] == []


def test_a_changed_journal_is_noticed(tmp_path, workload):
    journal = tmp_path / "journal.jsonl"
    call("simulate", workload, "--policy", "headway", "--journal", journal)
    lines = journal.read_text().splitlines()
    place = next(i for i, line in enumerate(lines) if '"is":"Place"' in line)
    lines[place] = lines[place].replace("fair sharing", "somebody")
    journal.write_text("\n".join(lines) + "\n")
    assert "plan differs" in call("replay", journal, code=1).stdout


def test_an_empty_or_nameless_journal_is_refused(tmp_path):
    journal = tmp_path / "journal.jsonl"
    journal.touch()
    assert "no cycle" in str(CliRunner().invoke(app, ["replay", str(journal)]).exception)
    seen = '"seen":{"is":"Observation","at":0.0},"plan":{"is":"Plan"},"outcomes":[]'
    journal.write_text(f'{{"cycle":1,"at_s":0.0,"trigger":"tick",{seen}}}\n')
    assert "--policy" in CliRunner().invoke(app, ["replay", str(journal)]).exception.hint


def test_a_journal_without_its_beginning_is_refused(tmp_path, workload):
    journal = tmp_path / "journal.jsonl"
    call("simulate", workload, "--policy", "fair", "--journal", journal)
    journal.write_text("".join(journal.read_text().splitlines(keepends=True)[1:]))
    assert "lost its beginning" in str(call("replay", journal, code=1).exception)
