"""Optimus' formulas, the ring, and what becomes of them where workers differ."""

import pytest

from headway.core.cycle.free_capacity import FreeCapacity
from headway.core.estimate.step_rate import (
    FAR,
    HERE,
    NEAR,
    Speed,
    distances,
    equal_limits,
    predict,
    steps_per_second,
    useful,
)
from headway.core.model.job import JobSpec, Task
from headway.core.model.units import NOTHING, Resources
from headway.spec.capacity_check import largest_first
from making import node

OPTIMUS = {"compute": 6.0, "fixed": 0.5, "transfer": 0.2, "per_worker": 0.03, "per_server": 0.05}
SYNC = Speed(**OPTIMUS, penalty=3.0, rack_penalty=2.0)
ASYNC = Speed(kind="async", **OPTIMUS, penalty=3.0, rack_penalty=2.0)
RING = Speed(kind="ring", compute=6.0, fixed=0.5, transfer=0.8, latency=0.1, penalty=4.0)


@pytest.mark.parametrize(("w", "p"), [(1, 1), (4, 2), (7, 3)])
def test_workers_alike_give_the_published_formulas(w, p):
    a_m, b, c, d, e = 6.0, 0.5, 0.2, 0.03, 0.05
    assert predict(SYNC, w, p) == pytest.approx(1 / (a_m / w + b + c * w / p + d * w + e * p))
    assert predict(ASYNC, w, p) == pytest.approx(w / (a_m + b + c * w / p + d * w + e * p))


@pytest.mark.parametrize("w", [2, 5])
def test_a_ring_sends_twice_its_model_less_its_own_part(w):
    step = 6.0 / w + 0.5 + 2 * (w - 1) / w * 0.8 + 0.1
    assert predict(RING, w, servers=0) == pytest.approx(1 / step)


def test_a_ring_of_one_sends_nothing():
    assert predict(RING, 1) == pytest.approx(1 / 6.5)


def test_all_wait_for_the_slowest_unless_asynchronous():
    mixed, slow = [(2.0, HERE), (0.5, HERE)], [(0.5, HERE)] * 2
    for speed in (SYNC, RING):
        assert steps_per_second(speed, mixed, 1) == pytest.approx(steps_per_second(speed, slow, 1))
    assert steps_per_second(ASYNC, mixed, 1) > steps_per_second(ASYNC, slow, 1)


def test_distance_multiplies_the_transfer():
    near = 1 / (6.0 / 2 + 0.5 + 3 * 0.2 * 2 + 0.03 * 2 + 0.05)
    assert steps_per_second(SYNC, [(1.0, HERE), (1.0, NEAR)], 1) == pytest.approx(near)
    far = 1 / (6.0 / 2 + 0.5 + 6 * 0.2 * 2 + 0.03 * 2 + 0.05)
    assert steps_per_second(SYNC, [(1.0, FAR), (1.0, NEAR)], 1) == pytest.approx(far)
    ring = 1 / (6.0 / 2 + 0.5 + 4 * 0.8 + 0.1)
    assert steps_per_second(RING, [(1.0, NEAR)] * 2) == pytest.approx(ring)


def test_nothing_goes_on_without_workers_or_servers():
    assert steps_per_second(SYNC, [], 1) == 0
    assert steps_per_second(SYNC, [(1.0, HERE)], 0) == 0
    assert steps_per_second(SYNC, [(1.0, HERE), (0.0, HERE)], 1) == 0
    assert useful(SYNC, [(1.0, HERE), (0.0, HERE)], 1) == [0, 0]


def test_an_asynchronous_worker_without_cpu_delays_no_other():
    assert steps_per_second(ASYNC, [(1.0, HERE), (0.0, HERE)], 1) == pytest.approx(
        1 / (6.0 + 0.5 + 0.2 * 2 + 0.03 * 2 + 0.05)
    )
    assert useful(ASYNC, [(1.0, HERE), (0.0, HERE)], 1)[0] == 1


def test_only_what_makes_progress_is_useful():
    assert useful(SYNC, [(1.0, HERE)] * 3, 1) == pytest.approx([1, 1, 1])
    fast, slow = useful(Speed(compute=4.0), [(2.0, HERE), (1.0, HERE)], 1)
    assert (fast, slow) == pytest.approx((0.5, 1.0))
    away = useful(Speed(compute=1.0, transfer=1.0, penalty=3.0), [(1.0, NEAR)], 1)
    assert away == pytest.approx([2 / 4])


def test_distances_are_to_the_nearest_server():
    a, b, c = node("a", rack="r1"), node("b", rack="r1"), node("c", rack="r2")
    assert distances(SYNC, [a, b, c], [a]) == [HERE, NEAR, FAR]
    assert distances(SYNC, [a, b, c], [a, c]) == [HERE, NEAR, HERE]


def test_a_ring_is_as_far_as_it_spans():
    a, b, c = node("a", rack="r1"), node("b", rack="r1"), node("c", rack="r2")
    assert distances(RING, [a, a], []) == [HERE, HERE]
    assert distances(RING, [a, b], []) == [NEAR, NEAR]
    assert distances(RING, [a, c], []) == [FAR, FAR]


def test_equal_limits_are_equal_paces():
    rooms = [(3.0, 0.5), (1.0, 2.0), (0.5, 4.0)]
    limits = equal_limits(rooms)
    paces = {round(limit * speed, 12) for limit, (_, speed) in zip(limits, rooms, strict=True)}
    assert paces == {1.5}
    assert all(limit <= cores for limit, (cores, _) in zip(limits, rooms, strict=True))
    assert equal_limits([]) == []


def test_a_gang_is_counted_by_how_much_of_it_finds_room():
    server = Task(name="ps", request=Resources(cpu=1.0))
    workers = Task(name="worker", replicas=4, request=Resources(cpu=2.0))
    wanted = largest_first(JobSpec(tasks=(server, workers)))
    assert [r.cpu for r in wanted] == [2, 2, 2, 2, 1]
    assert first_fit(wanted, node("a", cpu=4.0), node("b", cpu=5.0)) == 5
    assert first_fit(wanted, node("a", cpu=3.0), node("b", cpu=3.0)) == 3
    assert first_fit([NOTHING] * 3, node()) == 3


def first_fit(requests, *nodes):
    return FreeCapacity({n.id: n for n in nodes}).first_fit(requests)
