"""The arithmetic behind "nobody loses"."""

from itertools import combinations, pairwise
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.fairness.deadlines import Claim, Need, allocate, infeasible_set, slack
from headway.core.fairness.water_filling import share, weights_for

claim = st.builds(
    Claim, st.floats(0.5, 30), st.sampled_from([0.2, 0.5, 1.0, 2.0]), st.floats(0.5, 90)
)


@pytest.mark.untraced
@settings(max_examples=300, deadline=None)
@given(st.lists(claim, min_size=1, max_size=6), st.sampled_from([1.0, 2.0]))
def test_a_set_is_overdrawn_exactly_if_some_subset_has_no_slack(claims, capacity):
    """Hall's condition, by trying every subset."""
    everybody = dict(enumerate(claims))
    least = min(
        slack(list(group), capacity, 0.0)
        for size in range(1, len(claims) + 1)
        for group in combinations(claims, size)
    )
    found = infeasible_set(everybody, capacity, 0.0)
    if abs(least) > 1e-5:  # at the very edge rounding decides
        assert bool(found) == (least < 0)
    for group in found:
        assert slack([everybody[i] for i in group], capacity, 0.0) < 1e-5
    for small, large in pairwise(found):
        assert set(small) < set(large)


def test_what_is_past_due_is_overdrawn():
    assert infeasible_set({"x": Claim(1.0, 1.0, 5.0)}, 1.0, now=6.0) == [("x",)]
    assert infeasible_set({}, 1.0, now=0.0) == []


def need(left, due, demand=1.0):
    return Need(demand=demand, left=left, due=due)


def test_the_shortest_goes_first_while_all_can_wait():
    needs = {"long": need(50, 200), "short": need(10, 200)}
    found = allocate(needs, ["short", "long"], 1.0, 0.0, 10.0)
    assert found.rates == {"short": 1.0, "long": 0.0}
    assert (found.urgent, found.calm_for) == (set(), 10.0)


def test_a_promise_without_slack_goes_ahead_of_the_shorter():
    needs = {"long": need(50, 50), "short": need(10, 200)}
    found = allocate(needs, ["short", "long"], 1.0, 0.0, 10.0)
    assert found.rates == {"short": 0.0, "long": 1.0}
    assert found.urgent == {"long"}


def test_rates_hold_until_the_first_promise_runs_out():
    needs = {"long": need(50, 57), "short": need(100, 400)}
    found = allocate(needs, ["short", "long"], 1.0, 0.0, 10.0)
    assert found.calm_for == pytest.approx(7.0)


def test_who_cannot_use_all_leaves_the_rest():
    needs = {"small": need(20, 100, demand=0.2), "other": need(50, 400)}
    found = allocate(needs, ["other", "small"], 1.0, 0.0, 10.0)
    assert found.rates == {"other": pytest.approx(0.8), "small": pytest.approx(0.2)}


def test_a_set_within_a_set_goes_first():
    """Both must run at full speed for ever, and the smaller one needs its part at once."""
    needs = {"a": need(50, 100, demand=1.0), "b": need(20, 100, demand=0.2), "c": need(30, 100)}
    found = allocate(needs, ["a", "c", "b"], 1.0, 0.0, 10.0)
    assert found.rates["b"] == pytest.approx(0.2)
    assert sum(found.rates.values()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("short", "served"),
    [
        pytest.param(Need(demand=1.0, left=0.05, due=300.0, sure=True), 1.0, id="next to nothing"),
        pytest.param(Need(demand=1.0, left=0.3, due=-1.0, sure=True), 1.0, id="late, and little"),
        pytest.param(Need(demand=1.0, left=0.3, due=300.0, sure=True), 0.0, id="little, not late"),
        pytest.param(Need(demand=1.0, left=0.05, due=300.0), 0.0, id="who knows how much more"),
    ],
)
def test_who_has_next_to_nothing_left_ends_before_those_who_allow_no_delay(short, served):
    needs = {"must": need(100, 100), "short": short}
    assert allocate(needs, ["must", "short"], 1.0, 0.0, 10.0).rates["short"] == served


def test_what_can_no_longer_be_kept_is_late_together_and_goes_first():
    needs = {"late": need(50, 20), "later": need(50, 60), "short": need(1, 900)}
    found = allocate(needs, ["short", "late", "later"], 1.0, 0.0, 10.0)
    assert found.rates["short"] == 0.0
    assert found.urgent == {"late", "later"}


def test_who_is_behind_gets_its_share_and_as_much_again_to_catch_up():
    behind = Need(demand=1.0, equal=0.25, room=-1.0)
    ahead = Need(demand=1.0, equal=0.25, room=5.0)
    found = allocate({"b": behind, "a": ahead}, ["a", "b"], 1.0, 0.0, 10.0)
    assert found.rates == {"a": 0.5, "b": 0.5}
    assert found.behind == {"b"}
    assert found.calm_for == pytest.approx(10.0)
    soon = Need(demand=1.0, equal=0.25, room=1.0)
    assert allocate({"a": soon}, ["a"], 1.0, 0.0, 10.0).calm_for == pytest.approx(4.0)


@given(st.lists(st.sampled_from([0.1, 0.2, 0.5, 1.0]), min_size=1, max_size=20))
def test_weights_give_about_what_is_wanted_and_starve_nobody(caps):
    left, wanted = 1.0, []
    for cap in caps:
        wanted.append(min(cap, left))
        left -= wanted[-1]
    weights = weights_for(wanted, caps)
    assert min(weights) >= 0.002 * sum(weights)
    given_ = share(1.0, caps, weights)
    short = [w - g for w, g in zip(wanted, given_, strict=True)]
    assert max(short) <= 0.0041 * len(caps)  # the trickle of all the others, and no more


def test_where_nothing_is_wanted_all_weigh_the_same():
    assert weights_for([0.0, 0.0], [1.0, 1.0]) == [1.0, 1.0]


def test_a_claim_that_never_falls_due_constrains_nobody():
    found = allocate({"x": Need(demand=1.0, left=5.0, due=inf)}, ["x"], 1.0, 0.0, 10.0)
    assert found.urgent == set()
