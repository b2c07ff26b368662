"""What is left of real jobs is known through interruptions."""

import os
import subprocess
import sys

import pytest
from local import job, script, workload
from patience import end_of, wait_for

from headway.core.cycle.cluster_state import ClusterState, remember
from headway.runtime import journal

COST = 0.02
"""CPU time of a step, in seconds."""
STEADY = """
    import os, time, headway
    run = headway.attach(total_steps={steps})
    for step in range(1, {steps} + 1):
        end = time.process_time() + 0.02
        while time.process_time() < end: pass
        run.report(step, loss=1 / step)
        print("step", step, flush=True)
        while step == {waits} and not os.path.exists(os.environ["HEADWAY_DIR"] + "/more"):
            time.sleep(0.02)
        if step == {fails} and os.environ["HEADWAY_ATTEMPT"] == "1": raise SystemExit(1)
"""
LOOKS = "interrupted:at=2,interval=0.5"
"""A policy that reads reports every half second, and decides nothing."""
STARTED = 60
"""Steps after which the CPU time of starting Python matters little."""


@pytest.fixture
def headway(tmp_path):
    def start(*words):
        command = [sys.executable, "-m", "headway", *map(str, words)]
        env = {**os.environ, "HEADWAY_DATA": str(tmp_path)}
        return subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL)

    return start


@pytest.fixture
def one_job(tmp_path):
    def write(**settings):
        return workload(tmp_path, job("x", script(tmp_path, STEADY.format(**settings))))

    return write


def sizes(data):
    """Step, remaining and attained work of x at each report, and whether Headway was resumed
    before.
    """
    state, begun = ClusterState(), 0
    for line in journal.read(data / "runs" / "latest" / "journal.jsonl"):
        remember(state, line["seen"])
        begun += line["seen"].complete
        for report in line["seen"].reports:
            r = state.replicas.get(report.replica)
            if r and r.job == "x" and state.jobs["x"].remaining and report.step:
                yield (report.step, state.jobs["x"].remaining.value, r.attained), begun > 1


def test_what_is_left_is_known_after_a_killed_headway_is_resumed(
    tmp_path, headway, one_job, enforcement
):
    del enforcement

    def printed():
        return sum(p.read_text().count("\n") for p in tmp_path.glob("runs/2*/jobs/?/*/out.log"))

    running = headway("run", one_job(steps=300, waits=200, fails=0), "--policy", LOOKS)
    wait_for(lambda: printed() >= 80)
    running.kill()
    running.wait()
    seen = printed()
    wait_for(lambda: printed() >= min(200, seen + 60))
    run = tmp_path / "runs" / "latest"
    size = (run / "journal.jsonl").stat().st_size
    again = headway("run", "--resume", "latest")
    wait_for(lambda: (run / "journal.jsonl").stat().st_size > size)
    (run / "jobs" / "x" / "main-0" / "more").touch()
    assert end_of(again).returncode == 0
    found = [s for s, resumed in sizes(tmp_path) if resumed and s[0] > STARTED]
    assert len(found) > 2
    for step, left, attained in found:
        assert left == pytest.approx(COST * (300 - step), rel=0.2, abs=0.1), step
        assert attained == pytest.approx(COST * step, rel=0.2), step


def test_what_is_left_is_known_after_a_failure_without_a_checkpoint(tmp_path, headway, one_job):
    running = headway("run", one_job(steps=200, waits=0, fails=120), "--policy", LOOKS)
    assert end_of(running).returncode == 0
    found = [s for s, _ in sizes(tmp_path)]
    again = next(i for i in range(1, len(found)) if found[i][0] < found[i - 1][0])
    assert found[again - 1][0] > STARTED
    for step, left, attained in found[again:]:
        assert left == pytest.approx(COST * (200 - step), rel=0.25, abs=0.1), step
        assert attained > COST * step + 0.5, "the service includes what was lost"
