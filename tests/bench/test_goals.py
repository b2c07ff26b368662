"""Benchmarks that compare policies in simulations."""

import pytest

from headway.bench.gangs import bench_gangs
from headway.bench.promises import ROWS, evaluate

pytestmark = [pytest.mark.untraced, pytest.mark.usefixtures("one_core")]


def test_dragon_is_compared_with_pod_by_pod_placement():
    found = bench_gangs(0, seeds=1, names=["E-D1"])
    assert [f.name.partition(": ")[2] for f in found] == [
        "elapsed, dragon over pod by pod",
        "the same, worst seed",
        "useful GPUs, pod by pod over dragon",
    ]
    assert [f.bar is None for f in found] == [False, True, False]


def test_seeds_without_a_deadlock_are_listed_apart():
    found = bench_gangs(7, seeds=2, names=["E-D1"])  # seed 7 has a deadlock, seed 8 has none
    names = dict.fromkeys(f.name.partition(":")[0] for f in found)
    assert list(names) == ["E-D1, 2 seeds", "E-D1, 1 seeds without deadlock"]


def test_headway_meets_its_bars_on_a_few_seeds():
    found = {f.name.partition(": ")[2]: f for f in evaluate(ROWS[0], range(2))}
    assert found["worst job"].value <= ROWS[0].worst
    assert found["slower jobs"].value == found["jobs beyond 1.01"].value == 0
    assert found["makespan against fair"].plain()["pass"]
