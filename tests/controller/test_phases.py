"""Every pair of phase and cause is defined or refused."""

import pytest

from headway.controller.phases import TABLE, Cause, allows, check_transition
from headway.core.model.job import Phase

ENDED = (Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED)


def test_every_phase_has_a_row():
    assert set(TABLE) == set(Phase)


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("cause", Cause)
def test_a_transition_is_in_the_table_or_refused(phase, cause):
    allowed = TABLE[phase].get(cause, ())
    assert allows(phase, cause) == bool(allowed)
    for to in Phase:
        if to in allowed:
            check_transition(phase, cause, to)
        else:
            with pytest.raises(ValueError, match="no transition"):
                check_transition(phase, cause, to)


def test_ended_phases_have_no_way_out():
    assert not any(TABLE[phase] for phase in ENDED)


@pytest.mark.parametrize("phase", [p for p in Phase if p not in ENDED])
def test_every_phase_can_reach_an_end(phase):
    reached, edge = {phase}, [phase]
    while edge:
        for targets in TABLE[edge.pop()].values():
            edge += [t for t in targets if t not in reached]
            reached.update(targets)
    assert reached & set(ENDED)
