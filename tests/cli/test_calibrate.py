"""Jobs measured alone, with pacing, which needs no privileges."""

import csv
import json
import sys
from dataclasses import replace

import pytest
import yaml
from patience import busy

from headway.calibrate import Measurement, Solo, extend, least_disturbed
from headway.core.model.job import Direction, Mode
from headway.sim.build import to_scenario
from headway.spec.load import read_workload
from headway.spec.profile import Profile

SPINS = """
import time, headway
run = headway.attach(total_steps=40)
for step in range(1, 41):
    end = time.process_time() + 0.02
    while time.process_time() < end: pass
    run.report(step, loss=1 / step)
"""
SILENT = "pass"
UNSURE = """
import time
for step in range(1000):
    print(f"step {step} loss 0.5", flush=True)
    time.sleep(0.1)
"""


@pytest.fixture(autouse=True)
def _paced(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWAY_ENFORCEMENT", "nice")
    monkeypatch.setenv("HEADWAY_DATA", str(tmp_path / "data"))


def write(tmp_path, *jobs, **more):
    path = tmp_path / "w.yaml"
    head = {"apiVersion": "headway.dev/v1alpha1", "kind": "Workload"}
    path.write_text(yaml.safe_dump({**head, **more, "jobs": list(jobs)}))
    return path


def script(name, text, at=0.0, **spec):
    command = [sys.executable, "-c", text]
    return {"name": name, "at": at, "spec": {"tasks": [{"command": command}], **spec}}


def model(name, at=0.0, **profile):
    return {"name": name, "at": at, "model": "gru", "profile": {"work": 1.2, "steps": 80} | profile}


def curve(path):
    with path.open() as file:
        head, *lines = csv.reader(file)
    assert head == ["step", "value"]
    return [[float(x) for x in line] for line in lines]


def test_jobs_are_measured_alone_and_can_then_be_simulated(headway, tmp_path):
    path = write(tmp_path, model("a"), script("s", SPINS), model("b", at=1.0), nodes=[{"cpu": 1}])
    ran = headway("calibrate", path, "--seconds", 0.8, "--json")
    gru, spins = json.loads(ran.out)
    assert (gru["jobs"], spins["jobs"]) == (["a", "b"], ["s"]), "equal jobs are measured once"
    # Forty steps of 20 ms and the start; pacing misses the CPU used last.
    assert 0.2 < spins["work"] < 1.2
    assert 0 < spins["demand"] < 1.05, "other programs may use this machine"
    assert (gru["steps"], spins["steps"]) == (80, 40)
    assert gru["seconds"] >= 0.8
    assert gru["memory"] > 2**20
    assert 0 < gru["restore_s"] < 5
    assert "save_s" in gru
    assert "save_s" not in spins, "it has no checkpoints"

    measured = tmp_path / "w.measured.yaml"
    rows = curve(tmp_path / "w.measured.a.csv")
    assert rows[0][1] > rows[-1][1], "the loss falls"
    scenario = to_scenario(read_workload(measured), path=measured)
    assert [j.work for j in scenario.jobs] == [gru["work"], spins["work"], gru["work"]]
    assert scenario.jobs[0].costs.restore == gru["restore_s"]
    assert scenario.jobs[0].spec.tasks[0].request.memory == gru["memory"]
    assert scenario.jobs[1].spec.checkpoint is Mode.NONE
    assert headway("simulate", measured, "-p", "fair").code == 0


def test_a_measured_job_runs_and_its_size_is_known(headway, tmp_path):
    known = {"work": 3.0, "demand": 0.9, "memory": "100Mi"}
    path = write(tmp_path, script("s", SPINS) | {"measured": known})
    assert headway("run", path).code == 0
    seen = json.loads((tmp_path / "data/runs/latest/journal.jsonl").read_text().splitlines()[0])
    (job,) = seen["seen"]["jobs"]
    assert job["spec"]["expected"]["work"]["value"] == 3.0
    assert job["spec"]["tasks"][0]["request"]["memory"] == 100 * 2**20


def test_a_long_job_is_cut_and_its_curve_extrapolated(headway, tmp_path):
    path = write(tmp_path, model("long", work=30.0, steps=3000))
    to = tmp_path / "elsewhere.yaml"
    most = min(20.0, 2 * busy())  # the same CPU time on a machine that others use, too
    ran = headway("calibrate", path, "--seconds", 0.5, "--most", most, "--to", to)
    assert ran.code == 0
    assert "elsewhere.yaml" in ran.out
    (job,) = read_workload(to).jobs
    assert 10 < job.measured.work < 100
    assert curve(to.with_suffix(".long.csv"))[-1][0] <= 3000


@pytest.mark.parametrize("direction", list(Direction))
def test_a_cut_curve_is_extrapolated(direction):
    """1/k up to step 100 of 1000, or the same with the sign reversed."""
    values = [(k, -direction.sign * (1 / (0.1 * k + 1) + 0.2)) for k in range(1, 101)]
    solo = Solo(used=1, took=1, steps=100, total=1000, peak=0, points=values, noise=0)
    found = extend(solo, direction)
    assert found[: len(values)] == values
    assert found[-1][0] == 1000
    assert 0.2 < -direction.sign * found[-1][1] < 0.25, "0.29 at step 100, 0.21 at step 1000"
    whole = replace(solo, total=100)
    assert extend(whole, direction) == values, "a complete run is not extended"
    few = replace(solo, points=values[:3])
    assert extend(few, direction) == values[:3], "too few points to fit"


@pytest.mark.parametrize(
    ("text", "spec", "says"),
    [
        ("raise SystemExit(3)", {"backoffLimit": 0}, "exited with code 3"),
        (SILENT, {}, "no step was reported"),
        (UNSURE, {}, "totalSteps"),
        (SPINS, {"checkpoint": {"mode": "sdk"}}, "saved none"),
    ],
    ids=["it fails", "it reports nothing", "its steps are unknown", "it saves no checkpoint"],
)
def test_a_job_that_cannot_be_measured_is_reported_with_the_reason(
    headway, tmp_path, text, spec, says
):
    path = write(tmp_path, script("s", text, **spec))
    ran = headway("calibrate", path, "--seconds", 0.5, "--most", 2)
    assert ran.code == 2
    assert says in ran.err


def test_a_distributed_job_that_cannot_be_measured_is_reported_with_the_reason(headway, tmp_path):
    job = script("s", SILENT)
    job["spec"]["tasks"][0] |= {"replicas": 2, "name": "worker"}
    ran = headway("calibrate", write(tmp_path, job), "--seconds", 0.5)
    assert ran.code == 2
    assert "job 's' cannot be measured with 1 workers: it made too few steps" in ran.err


def measured(*runs, demand=1.0):
    """The measurement of a job in runs of (cores used by others, core-seconds, seconds)."""
    solos = [
        Solo(used=u, took=t, steps=1, total=1, peak=1, points=[], noise=0, foreign=f)
        for f, u, t in runs
    ]
    profile = Profile(work=1, demand=demand)
    return Measurement(jobs=("x", "y"), runs=tuple(solos), profile=profile)


def test_a_machine_that_others_use_is_noticed(monkeypatch):
    monkeypatch.setattr("headway.calibrate.os.sched_getaffinity", lambda _: {0, 1})
    assert measured((0.02, 1, 1)).remark() == ""
    assert measured((0.3, 1, 1), (0.5, 1, 1)).remark() == (
        "x, y: 0.3 of 2 cores used by others, which left enough CPU for the job"
    )
    found = measured((1.3, 1, 1), demand=0.7)
    assert found.remark().startswith("x, y: 1.3 of 2 cores used by others. Work is CPU time")
    assert "Demand is that of the least disturbed runs" in found.remark()
    assert found.plain()["foreign_cores"] == 1.3


def test_demand_is_that_of_the_least_disturbed_runs():
    runs = measured((0.9, 2, 4), (0.1, 2, 2), (0.12, 3, 3)).runs
    assert least_disturbed(runs) == runs[1:]
