"""`headway explain`: the run that was named, each phase once, and why a job ended."""

import json
from dataclasses import replace

import pytest

from headway.cli.output import show_story
from headway.report.explain import SHARES, Event, Explanation, explain_job
from headway.runtime.job_facts import JobFacts

WORKLOAD = """apiVersion: headway.dev/v1alpha1
kind: Workload
jobs: [{name: x, profile: {work: 30}}, {name: y, at: 5, profile: {work: 30}}]
"""


@pytest.fixture
def journal(headway, tmp_path):
    (tmp_path / "w.yaml").write_text(WORKLOAD)
    path = tmp_path / "j.jsonl"
    headway("simulate", tmp_path / "w.yaml", "-p", "fair", "--journal", path)
    return path


def test_a_run_that_does_not_exist_is_not_replaced_by_the_latest(headway, tmp_path):
    for name in ("a", "latest"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "run.json").write_text("{}")
    ran = headway("explain", "x", "--run", "nosuch", "--data", tmp_path)
    assert (ran.code, "no run is called 'nosuch'" in ran.err) == (2, True)


def test_a_phase_that_is_observed_again_is_listed_once(journal):
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    running = next(
        job
        for line in lines
        for job in line.get("seen", {}).get("jobs", ())
        if job["id"] == "x" and job.get("phase") == "running"
    )
    last = max(i for i, line in enumerate(lines) if line.get("seen", {}).get("jobs") is not None)
    again = next(
        line for line in lines[:last] if any(j["id"] == "y" for j in line["seen"].get("jobs", ()))
    )
    again["seen"]["jobs"].append(running)
    journal.write_text("".join(json.dumps(line) + "\n" for line in lines))
    phases = [event.what for event in explain_job(journal, "x").events]
    assert phases.count("running") == 1


def test_the_first_line_of_an_ended_job_says_why_it_ended(capsys):
    end = Event(9.0, "failed", "exited with code 1: ModuleNotFoundError: No module named 'x'")
    facts = JobFacts(at_s=8.5, phase="running", eta_s=9.5, reason="fair share")
    show_story(Explanation(job="bad", events=[Event(1.0, "pending"), end], facts=facts))
    first, second, *rest = capsys.readouterr().out.splitlines()
    assert first == f"bad: failed at 9.0 s: {end.why}"
    assert second == "last known, at 8.5 s:"
    assert not any(word in line for word in ("ETA", "fair share") for line in rest)
    facts = replace(facts, at_s=8.99)
    show_story(Explanation(job="bad", events=[Event(1.0, "pending"), end], facts=facts))
    assert "last known" not in capsys.readouterr().out


def test_a_share_that_changes_each_second_does_not_bury_the_other_events(capsys):
    shares = [Event(float(i), f"weight {i}", "fair share") for i in range(1, 100)]
    show_story(Explanation(job="x", events=[Event(0.0, "pending"), *shares]))
    said = capsys.readouterr().out
    assert "pending" in said
    assert "weight 99 " in said
    assert said.count("weight") == SHARES
    assert "89 earlier changes of its share and of the load: --json lists all" in said
