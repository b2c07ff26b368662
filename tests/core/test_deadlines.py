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
