"""A journal decided again gives the same decisions."""

import json
import re

import pytest
from typer.testing import CliRunner

from headway.cli import app
from headway.runtime.run_directory import RunDirectory
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


@pytest.mark.untraced
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
    assert "no difference" in call("replay", journal).stdout, "the same decision"
    said = call("replay", journal, "--reasons", code=1).stdout
    assert "plan differs" in said
    assert re.search(r"journal: \S+: place on node-\d \(.*somebody", said)
    lines[place] = lines[place].replace('"node-1"', '"node-2"').replace('"node-0"', '"node-2"')
    journal.write_text("\n".join(lines) + "\n")
    assert "plan differs" in call("replay", journal, "-p", "headway", code=1).stdout


def test_a_real_run_is_decided_again_by_its_name(tmp_path, workload):
    """Its journal says `@fifo`, the mode of real runs; users see `fifo`."""
    folder = RunDirectory.new(tmp_path, {})
    call("simulate", workload, "--policy", "@fifo", "--journal", folder.journal)
    for name in ("latest", folder.id, folder.path, folder.journal):
        said = call("replay", name, "--data", tmp_path).stdout
        assert "replayed with fifo: no difference" in said
    assert "under las" in call("replay", "latest", "-p", "las", "--data", tmp_path).stdout
    lines = folder.journal.read_text()
    folder.journal.write_text(lines.replace('"policy":"@fifo"', '"policy":"@las"', 1))
    for named in ([], ["-p", "las"]):
        said = call("replay", "latest", *named, "--data", tmp_path, code=1).stdout
        assert "differ under las" in said
    nobody = CliRunner().invoke(app, ["replay", "nobody", "--data", str(tmp_path)])
    assert "no run is called 'nobody'" in str(nobody.exception)


def test_an_empty_or_nameless_journal_is_refused(tmp_path):
    journal = tmp_path / "journal.jsonl"
    journal.touch()
    assert "no cycle" in str(CliRunner().invoke(app, ["replay", str(journal)]).exception)
    seen = '"seen":{"is":"Observation","at":0.0},"plan":{"is":"Plan"},"outcomes":[]'
    journal.write_text(f'{{"format":2,"cycle":1,"at_s":0.0,"trigger":"tick",{seen}}}\n')
    assert "--policy" in CliRunner().invoke(app, ["replay", str(journal)]).exception.hint
    job = '{"is":"Job","id":"j","spec":{"is":"JobSpec"},"submitted_at":0.0}'
    seen = seen.replace('"at":0.0', f'"at":0.0,"jobs":[{job}]')
    journal.write_text(
        f'{{"format":2,"cycle":1,"at_s":0.0,"policy":"x","trigger":"tick",{seen}}}\n'
    )
    for words in (["replay"], ["explain", "j", "--run"]):
        error = CliRunner().invoke(app, [*words, str(journal)]).exception
        assert (error.message, error.where) == ("no policy is called 'x'", str(journal)), words


def test_a_journal_without_its_beginning_is_refused(tmp_path, workload):
    journal = tmp_path / "journal.jsonl"
    call("simulate", workload, "--policy", "fair", "--journal", journal)
    later = "".join(journal.read_text().splitlines(keepends=True)[1:])
    journal.write_text(later.replace("{", '{"format":2,', 1))
    assert "its beginning was discarded" in str(call("replay", journal, code=1).exception)


def test_a_run_of_another_format_is_not_resumed_and_left_as_it_is(tmp_path):
    folder = RunDirectory.new(tmp_path, {"workload": "w.yaml", "policy": "fair"})
    folder.write("run.json", json.dumps({"workload": "w.yaml", "policy": "fair"}))
    folder.journal.write_text('{"cycle":1,"at_s":0.0')
    before = {p.name: p.read_bytes() for p in folder.path.iterdir()}
    said = CliRunner().invoke(app, ["run", "--resume", "latest", "--data", str(tmp_path)]).exception
    assert "was written in format 1; this Headway reads format 2" in str(said)
    assert "Headway 0.1" in said.hint
    assert {p.name: p.read_bytes() for p in folder.path.iterdir()} == before
