"""The arithmetic behind "nobody loses"."""

from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.fairness.deadlines import Claim, infeasible_set, slack

claim = st.builds(
    Claim, st.floats(0.5, 30), st.sampled_from([0.2, 0.5, 1.0, 2.0]), st.floats(0.5, 90)
)


@pytest.mark.untraced
@settings(max_examples=300, deadline=None)
@given(
    st.lists(claim, min_size=1, max_size=6),
    st.sampled_from([1.0, 2.0]),
    st.sampled_from([0.0, 0.003, 0.02]),
)
def test_a_set_is_overdrawn_exactly_if_some_subset_has_no_slack(claims, capacity, least):
    """Hall's condition, by trying every subset; the others get at least `least` meanwhile."""
    everybody = dict(enumerate(claims))

    def left(group):
        others = [c for i, c in everybody.items() if i not in group]
        return slack([everybody[i] for i in group], capacity, 0.0, others, least)

    tightest = min(
        left(group) for size in range(1, len(claims) + 1) for group in combinations(everybody, size)
    )
    found = infeasible_set(everybody, capacity, 0.0, least)
    if abs(tightest) > 1e-5:  # at the very edge rounding decides
        assert bool(found) == (tightest < 0)
    for group in found:
        assert left(group) < 1e-5
    for small, large in pairwise(found):
        assert set(small) < set(large)


@pytest.mark.parametrize(
    ("other", "served"),
    [
        pytest.param(Claim(50.0, 1.0, 80.0), 0.1 * 20, id="as long as the claim lasts"),
        pytest.param(Claim(5.0, 1.0, 10.0), 0.1 * 10, id="until it is due"),
        pytest.param(Claim(0.4, 1.0, 80.0), 0.4 * 20 / 80, id="no more than it needs"),
        pytest.param(Claim(4.0, 0.1, 80.0), 0.05 * 20, id="half of what it can use"),
    ],
)
def test_claims_that_wait_are_served_a_little(other, served):
    alone = slack([Claim(15.0, 1.0, 20.0)], 1.0, 0.0)
    assert slack([Claim(15.0, 1.0, 20.0)], 1.0, 0.0, [other], 0.1) == pytest.approx(alone - served)


def test_what_is_past_due_is_overdrawn():
    assert infeasible_set({"x": Claim(1.0, 1.0, 5.0)}, 1.0, now=6.0) == [("x",)]
    assert infeasible_set({}, 1.0, now=0.0) == []
