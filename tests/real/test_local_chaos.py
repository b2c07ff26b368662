"""One trial of `scripts/chaos` each: kills at a failpoint and in the recovery, and a power cut."""

import pytest
from campaign import oracle
from campaign.target import Target
from campaign.trial import Trial

from headway.bench.soak import bench_soak


@pytest.fixture
def trial(enforcement):
    made = []

    def make(kind, **points):
        target = Target(enforcement, {"HEADWAY_ENFORCEMENT": enforcement}, points=points)
        made.append(Trial(1, target, kind))
        return made[-1].go()

    yield make
    for each in made:
        each.close(None)
        assert oracle.processes(each.id, each.place.data) == []


def test_a_kill_at_a_failpoint_and_one_in_its_recovery_change_nothing(trial):
    line = trial("fault", **{"file.replace": 3})
    assert (line["fired"], line["violations"]) == (True, [])


@pytest.mark.usefixtures("loop_device")
def test_a_power_cut_loses_nothing_that_was_known(trial):
    assert trial("power")["violations"] == []


def test_a_short_soak_resumes_after_each_kill_and_completes_every_job(enforcement):
    del enforcement
    found = {f.name: f.value for f in bench_soak(minutes=0.15)}
    assert found["Headway ended by itself"] == found["jobs that did not succeed"] == 0
    assert found["jobs"] > 10
    assert found["processes left"] == 0
    assert found["cycles"] > 0
