"""Predicted and real runs are compared, with pacing, which needs no privileges."""

import pytest

from headway.bench.fidelity import compare, move_figures, times
from headway.report.run_timeline import RunTimeline
from headway.runtime.result import JobResult

JOBS = """
nodes: [{cpu: 1}]
jobs:
  - {name: a, at: 0, model: gru, profile: {work: 0.5, steps: 80}}
  - {name: b, at: 0.5, model: gru, profile: {work: 0.5, steps: 80}}
"""


def test_a_real_run_is_predicted(workload, monkeypatch):
    """Two short jobs on one node: one comparison, whatever its result."""
    monkeypatch.setenv("HEADWAY_ENFORCEMENT", "nice")
    path = workload(JOBS)
    found = {f.name: f for f in compare(path, "fair", repetitions=1, seconds=0.1)}
    assert len(found) == 16
    predicted, real = (found[f"fair: makespan, {x}"].value for x in ("predicted", "measured"))
    off = found["fair: makespan, relative error, worst"]
    assert off.value == pytest.approx(abs(predicted / real - 1))
    assert off.bar == 0.25
    assert predicted == pytest.approx(real, rel=0.6), "both are about the same run"


def test_delivered_time_excludes_what_other_programs_take():
    """Half the machine is gone from 10 to 20 s: a second of it counts as half."""
    shares = {
        "x": [(0.0, 1.0), (10.0, 0.5), (20.0, 0.0)],
        "y": [(0.0, 0.0), (5.0, 1.0), (6.0, 0.0)],
    }
    seen = RunTimeline(jobs=["x", "y"], cores=1, nodes=["a"], shares=shares, stays=[], values={})
    jobs = [
        JobResult(
            name=n, submitted_s=a, started_s=a, finished_s=b, steps=1, moves=0, outcome="succeeded"
        )
        for n, a, b in (("x", 0.0, 20.0), ("y", 5.0, 6.0))
    ]
    found = times(jobs, seen)
    assert (found["mean completion"], found["makespan"]) == (10.5, 20.0)
    assert found["makespan delivered"] == pytest.approx(10 + 5 + 1)
    assert found["mean completion delivered"] == pytest.approx((16 + 2) / 2)


def test_moves_are_counted_by_their_marks():
    found = move_figures(2, [["-M", "-R"], ["-R"]], 0.8)
    assert [f.value for f in found] == [2, 1.5, 1, 2, 1, 0.8]
