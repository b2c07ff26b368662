"""What several trainings at once cost: the law, and a short real measurement."""

import os
from pathlib import Path

import pytest

from headway.errors import BackendError
from headway.machine import Machine, Point, Processes, filling, fit, measure


def point(count, ceilings, throughput):
    return Point(count=count, ceilings=ceilings, efficiency=1.0, throughput=throughput, noise=0.01)


def test_the_law_is_found_in_exact_points():
    """With ceilings the number of trainings and the CPU that they would use count apart."""
    kinds = [(k, s) for k in (1, 2, 4, 12) for s in (None, 1.0, 2.0) if s is None or s < k]

    def lost(k, s):
        return 0.05 + 0.01 * (k - 1) + 0.03 * ((s or k) - 1) if k > 1 else 0.0

    found = fit([point(k, s, 1 / (1 + lost(k, s))) for k, s in kinds], 1)
    assert {name: c.value for name, c in found.items()} == pytest.approx(
        {"sharing": 0.05, "contention": 0.01, "oversubscription": 0.03}
    )
    assert all(c.error < 1e-9 for c in found.values())
    free = fit([point(k, None, 1 / (1 + lost(k, None))) for k in (1, 2, 4, 12)], 1)
    assert {name: c.value for name, c in free.items()} == pytest.approx(
        {"sharing": 0.05, "contention": 0.0, "oversubscription": 0.04}
    )


def test_what_trainings_would_use_counts_by_their_ceilings():
    assert point(6, None, 1.0).wanted(2) == 3
    assert point(6, 1.5, 1.0).wanted(2) == 1.5


def test_a_law_needs_several_numbers_beyond_the_cores():
    with pytest.raises(ValueError, match="too few numbers"):
        fit([point(1, None, 1.0), point(2, None, 0.9)], 1)


def measured(trainings, seconds=0.2):
    """Each of them gets some CPU in a round that is long enough, however busy the machine is."""
    try:
        return measure(trainings, 1, seconds=seconds, repetitions=1, ceilings=())
    except BackendError:
        assert seconds < 60
        return measured(trainings, 4 * seconds)


def test_a_round_without_an_update_is_named():
    with Processes(1, most=2) as trainings:
        trainings.counted = lambda: [(1.0, 1.0), (1.0, 1.0)]
        with pytest.raises(BackendError, match="too short"):
            measure(trainings, 1, seconds=0.01, repetitions=1, ceilings=())


@pytest.mark.untraced
def test_real_trainings_are_measured_in_turns_and_end():
    with Processes(1, most=4) as trainings:
        pids = list(trainings.pids)
        found = measured(trainings)
        assert [os.sched_getaffinity(pid) for pid in pids] == [set(trainings.cpus)] * 4
        assert all(updates > 0 for updates, _ in trainings.counted())
    assert isinstance(found, Machine)
    assert [p.count for p in found.points] == [1, 2, 3, 4]
    assert all(p.efficiency > 0.2 for p in found.points)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_calibrate_wants_a_workload_or_the_machine(headway):
    ran = headway("calibrate")
    assert ran.code == 2
    assert "no workload" in ran.err
    ran = headway("calibrate", "--machine", "--cores", 4096)
    assert ran.code == 2
    assert "cores, not 4096" in ran.err
    ran = headway("calibrate", "--machine", "--torch", "/nonexistent/python3")
    assert ran.code == 2
    assert "/nonexistent/python3 is not a program" in ran.err


def test_an_interpreter_without_pytorch_is_reported_at_once(headway, tmp_path):
    python = tmp_path / "python3"
    python.write_text("#!/bin/sh\nexit 3\n")
    python.chmod(0o755)
    ran = headway("calibrate", "--machine", "--cores", 1, "--torch", python)
    assert ran.code != 0
    assert "a training exited with code 3" in ran.err
    assert f"does {python} have numpy, or PyTorch with --torch?" in ran.err


@pytest.mark.parametrize(
    ("cores", "threads", "full"), [(2, 1, 2), (16, 4, 4), (16, 16, 1), (2, 8, 1)]
)
def test_trainings_of_several_threads_fill_the_cores_sooner(cores, threads, full):
    assert filling(cores, threads) == full


@pytest.mark.untraced
def test_each_training_has_the_threads_it_was_given():
    with Processes(1, most=1, threads=3) as trainings:
        found = Path(f"/proc/{trainings.pids[0]}/environ").read_bytes().split(b"\0")
    assert b"OMP_NUM_THREADS=3" in found
