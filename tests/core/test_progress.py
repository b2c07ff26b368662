"""Tracks, growth and growth efficiency."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.estimate.category import Category, by_efficiency
from headway.core.estimate.progress import efficiencies, paper_progress, progress, value_range
from headway.core.model.report import EMPTY, LONGEST, Report, Usage, extend
from headway.core.model.units import ReplicaId
from making import heard

G, W, C = Category.GROWING, Category.WATCHED, Category.CONVERGED


def test_the_papers_growth_is_the_change_over_the_largest_loss():
    track = heard(2.0, 1.0)  # means over 0-20 s and 20-40 s
    found = paper_progress(track, 40.0, 20.0)
    assert found.growth == pytest.approx(0.5)
    assert found.rate == pytest.approx(0.025)
    assert found.efficiency(cores=1.0) == pytest.approx(0.05)  # it used half of the node


def test_a_rising_loss_counts_as_growth_in_the_paper_and_not_in_ours():
    track = heard(1.0, 2.0)
    assert paper_progress(track, 40.0, 20.0).growth == pytest.approx(0.5)
    assert progress(track, 40.0, 20.0, sign=-1.0).growth == 0.0
    assert progress(track, 40.0, 20.0, sign=1.0).growth > 0.5


def test_the_window_slides_between_two_reports():
    track = heard(4.0, 2.0, 1.0)
    found = paper_progress(track, 50.0, 20.0)
    # (30, 50] holds 10 s of 2.0 and 10 s of 1.0; (10, 30] 10 s of 4.0 and 10 s of 2.0.
    assert found.growth == pytest.approx((3.0 - 1.5) / 4.0)


@pytest.mark.parametrize(
    ("track", "why"),
    [
        (EMPTY, "said nothing yet"),
        (heard(1.0), "one interval is not two"),
        (heard(None, None), "silence is unknown"),
        (heard(1.0, None), "silence in the last interval"),
    ],
)
def test_what_is_not_known_has_no_progress(track, why):
    at = 40.0
    assert paper_progress(track, at, 20.0) is None, why
    assert progress(track, at, 20.0, sign=-1.0) is None, why


def test_a_loss_that_is_not_positive_has_no_place_in_the_papers_signal():
    assert paper_progress(heard(-1.0, -2.0), 40.0, 20.0) is None
    assert progress(heard(-1.0, -2.0), 40.0, 20.0, sign=-1.0).growth > 0


def test_growth_efficiency_is_known_for_each_resource_that_is_used_and_counted():
    """A drop of 1.0 in 20 s, over a range of 0.9."""
    track = heard(2.0, 1.0)
    used = Usage(cpu=0.5, memory=2.0**31, block_io=2.0**20, network_io=2.0**22)
    found = efficiencies(track, used, sign=-1.0)
    per_second = 1.0 / 0.9 / 20.0
    assert found == pytest.approx(
        {
            "cpu": 2 * per_second,
            "memory": per_second / 2,
            "block_io": per_second,
            "network_io": per_second / 4,
        }
    )
    assert set(efficiencies(track, Usage(cpu=0.5), sign=-1.0)) == {"cpu"}
    assert efficiencies(track, Usage(cpu=0.5), sign=1.0) == {"cpu": 0.0}
    for unknown in (EMPTY, heard(1.0), heard(1.0, None), heard(1.0, 1.0)):
        assert efficiencies(unknown, used, sign=-1.0) == {}
    assert efficiencies(track, None, sign=-1.0) == {}


def test_no_usage_no_efficiency():
    assert progress(heard(2.0, 1.0, cpu=0.0), 40.0, 20.0, sign=-1.0).efficiency(1.0) is None
    silent = extend(EMPTY, Report(replica=ReplicaId("x/main-0"), since=0.0, at=40.0, value=1.0))
    assert progress(silent, 40.0, 20.0, sign=-1.0) is None


def test_a_track_of_silence_has_no_range():
    assert value_range(heard(None)) == 0.0


def test_a_constant_value_has_no_range_and_no_growth():
    assert progress(heard(1.0, 1.0), 40.0, 20.0, sign=-1.0).growth == 0.0


def test_the_range_leaves_out_the_outermost_twentieths():
    values = [float(i) for i in range(101)]
    assert value_range(heard(*values[:60])) == pytest.approx(0.9 * 59)


@given(
    st.lists(st.integers(-1000, 1000), min_size=2, max_size=20),
    st.integers(-8, 8),
    st.integers(-4, 4),
)
def test_an_affine_change_by_powers_of_two_changes_nothing(values, scale, offset):
    plain = [v / 16 for v in values]
    changed = [v * 2.0**scale + 2.0**offset for v in plain]
    at = 20.0 * len(values)
    before = progress(heard(*plain), at, 20.0, sign=-1.0)
    after = progress(heard(*changed), at, 20.0, sign=-1.0)
    assert before == after


def test_a_long_track_is_thinned_and_keeps_its_span_and_its_total():
    track = heard(*[float(i % 7) for i in range(300)], every=1.0, cpu=0.25)
    assert len(track.windows) <= LONGEST
    assert (track.windows[0].since, track.windows[-1].at) == (0.0, 300.0)
    used = sum(w.cpu * (w.at - w.since) for w in track.windows)
    assert used == pytest.approx(75.0)
    assert track.step == 300.0


def test_thinning_keeps_what_is_known_of_two_windows():
    said = [1.0 if i % 2 else None for i in range(LONGEST + 1)]
    track = heard(*said, every=1.0)
    assert track.windows[0].value == 0.0  # the one that spoke
    quiet = EMPTY
    for i in range(LONGEST + 1):
        usage = Usage(cpu=1.0) if i % 2 == 0 else None
        quiet = extend(quiet, Report(replica="x", since=i, at=i + 1, usage=usage))
    assert quiet.windows[0].cpu == 1.0
    assert quiet.windows[0].value is None


@pytest.mark.parametrize(
    ("now", "efficiency", "then"),
    [
        pytest.param(G, 0.04, W, id="slow once: watched"),
        pytest.param(W, 0.04, C, id="slow twice: converged"),
        pytest.param(C, 0.04, C, id="slow for good: stays"),
        pytest.param(C, 0.05, G, id="at the threshold: starts over"),
        pytest.param(W, 0.06, G, id="fast again"),
    ],
)
def test_category_by_efficiency(now, efficiency, then):
    assert by_efficiency(now, efficiency, threshold=0.05) is then
