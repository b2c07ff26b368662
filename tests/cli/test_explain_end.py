"""`headway explain` of a job that has ended shows its last report, however fast it ended."""

import json
import sys

import pytest
from patience import wait_for

from headway.report.run_timeline import read_timeline
from headway.runtime.run_directory import RunDirectory

TRAINS = """
import os, time
while not os.path.exists("go"):
    print("step 1/60 loss: 1.0", flush=True)
    time.sleep(0.02)
for step in range(2, 61):
    print(f"step {step}/60 loss: {1 / step:.4f}", flush=True)
"""


@pytest.fixture
def script(tmp_path):
    (tmp_path / "train.py").write_text(TRAINS)
    return "--", sys.executable, tmp_path / "train.py"


def known(headway):
    return json.loads(headway("explain", "train", "--json").out)["known"]


def test_the_last_report_before_the_exit_counts_in_a_run(headway, script, tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWAY_ENFORCEMENT", "nice")
    monkeypatch.setenv("HEADWAY_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "go").touch()
    assert headway("run", *script).code == 0
    found = known(headway)
    assert (found["step"], found["total_steps"], found["value"]) == (60, 60, 0.0167)
    shown = headway("explain", "train").out
    assert "60/60" in shown
    assert "last known" not in shown
    assert "ETA" not in shown
    values = read_timeline(RunDirectory.find(tmp_path / "data", "latest")).values["train"]
    assert values[-1][1] == 0.0167


def test_a_failed_job_without_a_metric_is_not_asked_for_one(headway, tmp_path, monkeypatch):
    """And a job of an earlier run is not simply unknown."""
    monkeypatch.setenv("HEADWAY_ENFORCEMENT", "nice")
    monkeypatch.setenv("HEADWAY_DATA", str(tmp_path / "data"))
    asks = "no metric found in its output: set metric.name"
    monkeypatch.chdir(tmp_path)
    for name, code in (("first", "import time; time.sleep(0.5)"), ("second", "1 / 0")):
        (tmp_path / f"{name}.py").write_text(code)
        headway("run", "--", sys.executable, f"{name}.py")
        shown = headway("explain", name).out
        assert (asks in shown) == (name == "first")
        assert "ZeroDivisionError" in shown or name == "first"
    again = headway("explain", "first")
    assert "there are: second; for an earlier run: --run RUN, see headway history" in again.err
    assert "for an earlier run" not in headway("explain", "first", "--run", "latest").err


def test_the_last_report_before_the_exit_counts_in_a_server(headway, script, serving, tmp_path):
    serving()
    assert headway("submit", *script).code == 0
    wait_for(lambda: headway("ps", "--json").out.count('"step": 1.0'))
    assert known(headway)["step"] == 1
    (tmp_path / "go").touch()
    assert headway("wait", "train").code == 0
    wait_for(lambda: known(headway)["step"] == 60)
    assert known(headway)["value"] == 0.0167


def test_the_report_of_a_job_that_ended_without_a_server_counts(headway, script, serving, tmp_path):
    first = serving()
    headway("submit", *script)
    wait_for(lambda: headway("ps", "--json").out.count('"step": 1.0'))
    first.kill()
    first.communicate()
    (tmp_path / "go").touch()
    job = next((tmp_path / "data" / "runs" / "latest").glob("jobs/train/main-0/out.log"))
    wait_for(lambda: "step 60/60" in job.read_text())
    serving()
    assert headway("wait", "train").code == 0
    wait_for(lambda: known(headway)["step"] == 60)


BURNS = """
import time
for step in range(1, 31):
    until = time.process_time() + 0.04
    while time.process_time() < until:
        pass
    print(f"step {step}/30 loss: 1.0", flush=True)
"""


def test_the_size_of_an_ended_job_is_the_cpu_that_it_used(headway, tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWAY_ENFORCEMENT", "nice")
    monkeypatch.setenv("HEADWAY_DATA", str(tmp_path / "data"))
    (tmp_path / "train.py").write_text(BURNS)
    assert headway("run", "--", sys.executable, tmp_path / "train.py").code == 0
    assert 1.1 < known(headway)["size"] < 1.7
