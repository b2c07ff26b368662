"""The figures of a soak; `tests/real/test_local_chaos.py` runs a short one."""

import pytest

from headway.bench.soak import EVERY, HOSTILE, SLOTS, judge, slope, workload


def samples(**values):
    """Ten samples; each value is a function of the number of jobs that have ended."""
    usual = {"rss_mb": 40.0, "descriptors": 30, "journal_bytes": 1, "usage_bytes": 1}
    usual |= {"cycles_ms": [2.0] * 100, "syncs_ms": [1.0]}
    return [
        {"ended": n, **usual, **{name: value(n) for name, value in values.items()}}
        for n in range(0, 1000, 100)
    ]


def missed(found):
    return [f.name for f in judge(found) if not f.plain()["pass"]]


def test_every_kind_of_hostile_job_is_among_the_jobs():
    jobs = workload(4 * EVERY, 60.0)["jobs"]
    kinds = [job["name"].partition("-")[0] for job in jobs]
    assert set(kinds) == {*HOSTILE, "job", "endless"}
    assert kinds.count("job") == 4 * (EVERY - 1)


def test_the_jobs_fill_the_slots_and_no_more():
    found = workload(10, 60.0)
    request = found["jobs"][0]["spec"]["tasks"][0]["resources"]["requests"]["cpu"]
    assert found["nodes"][0]["cpu"] / request == SLOTS


def test_the_slope_is_memory_for_each_job():
    assert slope(samples(rss_mb=lambda n: 40 + 0.002 * n)) == pytest.approx(0.002)
    assert slope(samples()[:1]) == 0.0


def test_a_steady_run_passes():
    assert missed(samples()) == []


@pytest.mark.parametrize(
    ("name", "value", "bar"),
    [
        ("rss_mb", lambda n: 40 + 0.002 * n, "memory, slope"),
        ("descriptors", lambda n: 30 + n // 100, "descriptors, last quarter less the first"),
        ("journal_bytes", lambda n: 2**21 * n, "journal, largest"),
        ("cycles_ms", lambda _: [2.0] * 90 + [150.0] * 10, "cycle, 99th percentile"),
    ],
)
def test_what_grows_misses_its_bar(name, value, bar):
    assert missed(samples(**{name: value})) == [bar]


def test_too_few_samples_are_a_miss():
    assert missed(samples()[:2]) == ["samples missing"]
