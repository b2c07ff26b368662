"""What is known of a job, and why it has its share: in words that a user reads."""

import json
import sys
from dataclasses import replace

import pytest
import yaml

from headway.cli.facts import facts_lines, moment, size
from headway.core.cycle.cluster_state import assemble, remember
from headway.core.cycle.policy import Chain
from headway.core.model.job import Estimate, Expected, Phase, Task
from headway.core.model.report import Report, Usage
from headway.core.model.snapshot import Observation, Trigger
from headway.core.model.units import ReplicaId
from headway.policy.registry import POLICIES, build
from headway.runtime.job_facts import STEPS, Samples, job_facts, share_reasons
from headway.runtime.usage_sampler import ReplicaSample
from making import history, job, node, replica


def decided(state, policy="headway"):
    policy = build(policy)
    _, memory = policy.decide(assemble(state, Trigger.STARTED), policy.begin())
    return state, policy, memory


def world(*jobs):
    return history(nodes=(node(),), jobs=jobs, replicas=[replica(j.id) for j in jobs])


def sized(name, work, *, error=0.0):
    return job(name, expected=Expected(work=Estimate(value=work, error=error), demand=1.0))


def test_a_waiting_job_names_the_jobs_that_it_waits_for_and_when_it_finishes_at_the_latest():
    facts = job_facts(*decided(world(sized("long", 100), sized("short", 10))))
    long = facts["long"]
    assert long.reason == (
        "waits for short (about 10 s of CPU left); guaranteed to finish within 110 s"
    )
    assert (long.guarantee_s, long.eta_s) == (pytest.approx(110), pytest.approx(110))
    assert (long.size, long.size_from, long.demand) == (100, "declared", 1.0)


def test_the_present_reason_is_given_also_if_the_share_does_not_change():
    state, policy, memory = decided(world(sized("long", 100), sized("mid", 50), sized("short", 10)))
    before = share_reasons(state, policy, memory)
    assert before["long/main-0"].startswith("waits for short (")
    assert share_reasons(state, policy, memory) == before, "asking changes nothing"
    ended = replace(state.jobs["short"], phase=Phase.SUCCEEDED)
    remember(state, Observation(at=10.0, jobs=(ended,)))
    _, memory = policy.decide(assemble(state, Trigger.FINISHED), memory)
    assert share_reasons(state, policy, memory)["long/main-0"].startswith("waits for mid (")


def test_of_many_jobs_ahead_three_are_named():
    jobs = [sized(f"j{i}", 10) for i in range(5)]
    state = history(
        nodes=(node(cpu=5.0),),
        jobs=[*jobs, sized("long", 100)],
        replicas=[replica(j.id) for j in (*jobs, sized("long", 100))],
    )
    assert job_facts(*decided(state))["long"].reason.startswith(
        "waits for j0, j1, j2 and 2 others (about 50 s of CPU left); guaranteed"
    )


def test_a_job_that_runs_has_an_eta_by_its_rate():
    facts = job_facts(*decided(world(sized("x", 100))))
    assert facts["x"].eta_s == pytest.approx(100), "no rate is known yet: its guarantee"
    state, policy, memory = decided(world(sized("x", 100)))
    fast = Samples(at=5.0, latest={"x/main-0": ReplicaSample(cpu=4.0)})
    assert job_facts(state, policy, memory, fast)["x"].eta_s == pytest.approx(25)


def test_a_size_has_a_source():
    known = world(sized("x", 100, error=0.1))
    assert job_facts(*decided(known))["x"].size_from == "an earlier run of this kind"
    told = world(job("x", total_steps=100))
    report = Report(replica=ReplicaId("x/main-0"), since=0.0, at=10.0, step=20.0, value=0.5,
                    usage=Usage(cpu=1.0))  # fmt: skip
    remember(told, Observation(at=10.0, reports=(report,)))
    x = job_facts(*decided(told))["x"]
    assert (x.size, x.size_from) == (pytest.approx(50), STEPS)
    assert (x.value, x.step, x.total_steps) == (0.5, 20, 100)
    assert x.eta_s == pytest.approx(50), "40 core-seconds at one core, from 10 s on"


def test_growth_efficiency_is_shown_by_resource():
    seen = world(job("x", total_steps=100))
    for i, value in enumerate((2.0, 1.0)):
        report = Report(replica=ReplicaId("x/main-0"), since=10.0 * i, at=10.0 * (i + 1),
                        value=value, usage=Usage(cpu=0.5, memory=2.0**30))  # fmt: skip
        remember(seen, Observation(at=10.0 * (i + 1), reports=(report,)))
    x = job_facts(*decided(seen))["x"]
    lines = dict(facts_lines(x, None))
    assert lines["growth"] == "0.222/s per core, 0.111/s per GiB"


def test_an_unknown_size_has_no_eta_and_says_what_to_set():
    x = job_facts(*decided(world(job("x"), job("y"))))["x"]
    assert (x.size, x.eta_s, x.guarantee_s) == (None, None, None)
    assert x.reason == "its length is unknown (set totalSteps): fair share"


def test_under_any_policy_the_steps_seen_give_a_size_and_an_eta():
    state, policy, memory = decided(world(job("x", total_steps=100)), "fair")
    seen = Samples(
        at=9.0, latest={"x/main-0": ReplicaSample(cpu=0.5, step=10.0, left=5.0, found="loss in f")}
    )
    x = job_facts(state, policy, memory, seen)["x"]
    assert (x.eta_s, x.size_from, x.found, x.guarantee_s) == (19.0, STEPS, "loss in f", None)
    idle = Samples(at=9.0, latest={"x/main-0": ReplicaSample(left=5.0)})
    assert job_facts(state, policy, memory, idle)["x"].eta_s == 14.0, "alone on its node"


def test_a_size_after_few_steps_is_a_guess_as_the_policy_says():
    state, policy, memory = decided(world(job("x", total_steps=1000), job("y")))
    reports = {"x/main-0": ReplicaSample(cpu=0.5, step=10.0, left=500.0)}
    x = job_facts(state, policy, memory, Samples(at=9.0, latest=reports))["x"]
    assert x.reason == "its length is known after 2% of its steps: fair share"
    assert (x.size, x.size_error) == (500.0, None)
    assert dict(facts_lines(x, None))["size"] == (
        "about 500.0 core-seconds (guessed from its first steps)"
    )


def test_a_size_by_the_last_sample_has_the_cpu_that_was_used_since_the_last_report():
    state, policy, memory = decided(world(job("x", total_steps=100)), "fair")
    sample = ReplicaSample(cpu=0.5, step=10.0, left=5.0, unreported=3.0)
    x = job_facts(state, policy, memory, Samples(at=9.0, latest={"x/main-0": sample}))["x"]
    assert (x.size, x.attained) == (8.0, 3.0)


def test_a_job_that_waits_for_capacity_has_no_facts_but_its_phase():
    state = history(nodes=(node(),), jobs=(job("x", phase=Phase.PENDING),))
    policy = Chain()
    x = job_facts(state, policy, policy.begin())["x"]
    assert (x.phase, x.value, x.step) == ("pending", None, None)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_simulated_job_is_explained_under_every_policy(policy, tmp_path, headway):
    path, journal = tmp_path / "w.yaml", tmp_path / "j.jsonl"
    jobs = [
        {"name": n, "at": i, "profile": {"work": w, "steps": 100}}
        for i, (n, w) in enumerate((("long", 60), ("mid", 30), ("short", 10)))
    ]
    head = {"apiVersion": "headway.dev/v1alpha1", "kind": "Workload"}
    path.write_text(yaml.safe_dump({**head, "nodes": [{"name": "a", "cpu": 1}], "jobs": jobs}))
    assert headway("simulate", path, "--policy", policy, "--journal", journal).code == 0
    ran = headway("explain", "long", "--run", journal, "--json")
    told = json.loads(ran.out)
    assert (told["began"], told["known"]["phase"]) == (None, "running")
    assert told["events"][-1]["what"] == "succeeded"
    said = headway("explain", "long", "--run", journal).out
    assert "long: succeeded at" in said
    assert "size" in said


def test_a_finished_run_says_what_was_known_of_a_job_before_its_end(tmp_path, workload, headway):
    text = """import time
for i in range(30):
    print(f"step {i + 1}/30 loss {1 / (i + 1)}", flush=True)
    end = time.process_time() + 0.02
    while time.process_time() < end: pass
"""
    path = workload(
        f"jobs: [{{name: x, spec: {{tasks: [{{command: [{sys.executable}, train.py]}}]}}}}]"
    )
    (path.parent / "train.py").write_text(text)
    assert headway("run", path, "--policy", "fair", "--data", tmp_path / "data").code == 0
    told = json.loads(headway("explain", "x", "--data", tmp_path / "data", "--json").out)
    known = told["known"]
    assert known["found"] == 'loss in out.log, line "step 1/30 loss 1.0"'
    assert known["size_from"] == STEPS
    assert known["eta_s"] >= known["at_s"]
    said = headway("explain", "x", "--data", tmp_path / "data").out
    assert "x: succeeded at" in said
    assert moment(told["events"][-1]["at_s"], told["began"]) in said


def test_a_journal_without_its_beginning_has_events_only(tmp_path, headway, workload):
    journal = tmp_path / "j.jsonl"
    path = workload("jobs: [{name: x, profile: {work: 9}}, {name: y, at: 1, profile: {work: 5}}]")
    headway("simulate", path, "--policy", "headway", "--journal", journal)
    _, *lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(lines).replace("{", '{"format":2,', 1))
    found = json.loads(headway("explain", "y", "--run", journal, "--json").out)
    assert found["known"] is None
    assert found["events"]
    assert headway("explain", "y", "--run", journal).code == 0


def test_the_facts_of_a_distributed_job_are_those_of_the_replica_that_reports():
    """The parameter server comes first and reports nothing."""
    tasks = (Task(name="ps"), Task(name="worker"))
    placed = [replica("x", task="ps"), replica("x", task="worker")]
    state = history(nodes=(node(),), jobs=[job("x", tasks=tasks)], replicas=placed)
    now = {
        "x/ps-0": ReplicaSample(cpu=0.1),
        "x/worker-0": ReplicaSample(cpu=0.5, value=0.25, step=12.0, found="here"),
    }
    (facts,) = job_facts(*decided(state, "fifo"), Samples(at=1.0, latest=now)).values()
    assert (facts.value, facts.step, facts.found) == (0.25, 12.0, "here")


def test_a_size_of_unknown_origin_is_written_without_an_empty_place():
    facts = job_facts(*decided(world(sized("x", 10))))["x"]
    assert size(replace(facts, size_from="", size_error=0.02)) == (
        "about 10.0 core-seconds (within 2%)"
    )
    assert size(replace(facts, size_from="", size_error=None)) == "about 10.0 core-seconds"
