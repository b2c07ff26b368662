"""Weights under which replicas get given shares."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.fairness.water_filling import share, weights_for


@given(st.lists(st.sampled_from([0.1, 0.2, 0.5, 1.0]), min_size=1, max_size=20))
def test_weights_give_about_what_is_wanted_and_at_least_the_minimum(caps):
    left, wanted = 1.0, []
    for cap in caps:
        wanted.append(min(cap, left))
        left -= wanted[-1]
    weights = weights_for(wanted, caps)
    assert min(weights) >= 0.002 * sum(weights)
    given_ = share(1.0, caps, weights)
    short = [w - g for w, g in zip(wanted, given_, strict=True)]
    assert max(short) <= 0.0041 * len(caps)  # the minimum of all the others, and no more


def test_all_weights_are_equal_where_nothing_is_wanted():
    assert weights_for([0.0, 0.0], [1.0, 1.0]) == [1.0, 1.0]


def test_replicas_with_exact_shares_do_not_pay_for_the_minimum_of_others():
    wanted, caps = [0.3, 0.3, 0.4, 0.0, 0.0], [1.0] * 5
    got = share(1.0, caps, weights_for(wanted, caps, exact={0, 1}))
    assert got[:2] == pytest.approx([0.3, 0.3])
    assert got[2] == pytest.approx(0.4 - got[3] - got[4])


def test_all_pay_for_the_minimum_where_no_other_replica_can():
    wanted, caps = [0.5, 0.5, 0.0], [1.0] * 3
    got = share(1.0, caps, weights_for(wanted, caps, exact={0, 1}))
    assert got[:2] == pytest.approx([(1 - got[2]) / 2] * 2)
    assert got[2] >= 0.002


def test_the_minimum_holds_beside_replicas_that_are_starting():
    weights = weights_for([1.0, 0.0, 0.0], [1.0] * 3, others=2)
    assert min(weights) >= 0.002 * (sum(weights) + 2)
