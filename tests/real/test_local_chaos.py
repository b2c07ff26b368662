"""One trial of `scripts/chaos` each: kills at a failpoint and in the recovery, and a power cut."""

import pytest
from campaign import oracle
from campaign.target import Target
from campaign.trial import Trial


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
    line = trial("fault", **{"state.replace": 3})
    assert (line["fired"], line["violations"]) == (True, [])


@pytest.mark.usefixtures("loop_device")
def test_a_power_cut_loses_nothing_that_was_known(trial):
    assert trial("power")["violations"] == []
