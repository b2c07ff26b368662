"""Small parts of the Docker backend: limits, logs, statistics."""

import pytest

from headway.backend.docker import cpu_limits, log_follower, stats
from headway.backend.transit import mark
from headway.core.model.job import Mode


@pytest.mark.parametrize(
    ("host", "limit", "asked"),
    [
        ({}, None, {"NanoCpus": 2_000_000_000}),
        ({"NanoCpus": 5}, 0.001, {"NanoCpus": 10_000_000}),
        ({"CpuPeriod": 50_000}, 0.5, {"CpuPeriod": 50_000, "CpuQuota": 25_000}),
        ({"CpuQuota": -1}, None, {"CpuPeriod": 100_000, "CpuQuota": 200_000}),
        ({"CpuQuota": 1000}, 0.001, {"CpuPeriod": 100_000, "CpuQuota": 1000}),
        ({}, 7.0, {"NanoCpus": 2_000_000_000}),
    ],
)
def test_a_ceiling_is_asked_for_in_the_way_in_which_it_was_first_given(host, limit, asked):
    found = cpu_limits.asked(host, 2.0, limit, 1.0)
    assert found == {"CpuShares": 1024, **asked}
    read = cpu_limits.share({**host, **found}, 2.0)[0]
    assert read is None if limit is None or limit > 2 else read is not None


def test_no_ceiling_is_never_zero():
    for host in ({}, {"CpuQuota": 50_000}):
        asked = cpu_limits.asked(host, 2.0, None, 1.0)
        assert 0 not in asked.values()
        assert cpu_limits.share({**host, **asked}, 2.0) == (None, 1.0)


def test_memory_is_never_told_without_swap():
    assert cpu_limits.memory({}, 100) == {"Memory": 100, "MemorySwap": 100}
    assert cpu_limits.memory({"Memory": 100, "MemorySwap": -1}, 50) == {
        "Memory": 50,
        "MemorySwap": -1,
    }


def test_pieces_of_a_log_are_put_together_wherever_they_are_cut():
    said = b"".join(b"\1\0\0\0" + len(t).to_bytes(4, "big") + t for t in (b"one\n", b"two\n", b""))
    for at in range(len(said)):
        assert list(log_follower.pieces([said[:at], said[at:]])) == [b"one\n", b"two\n", b""]
    assert list(log_follower.raw_pieces([b"on", b"e\ntwo"])) == [b"one\n", b"two"]


def test_statistics_of_both_versions_are_understood():
    said = {
        "cpu_stats": {
            "cpu_usage": {"total_usage": 3e9},
            "throttling_data": {"periods": 9, "throttled_periods": 4},
        },
        "memory_stats": {"usage": 50, "stats": {"anon": 40}},
        "blkio_stats": {
            "io_service_bytes_recursive": [
                {"op": "Read", "value": 1}, {"op": "write", "value": 2}, {"op": "Total", "value": 3}
            ]
        },
    }  # fmt: skip
    found = stats.to_sample(said)
    assert (found.cpu, found.memory, found.block_io) == (3.0, 40, 3)
    assert (found.periods, found.throttled) == (9, 4)
    assert stats.to_sample({}).cpu == 0


def test_by_the_sdk_a_checkpoint_counts_only_when_latest_names_it(tmp_path):
    """Else who saves itself for the first time would be stopped before it has."""
    part = tmp_path / "checkpoint" / "step-1-1.part"
    part.mkdir(parents=True)
    assert mark(tmp_path, Mode.SIGTERM) == ""
    (part / "weights").touch()
    assert mark(tmp_path, Mode.SDK) == ""
    assert mark(tmp_path, Mode.SIGTERM)
    (tmp_path / "checkpoint" / "LATEST").write_text("1")
    assert mark(tmp_path, Mode.SDK) == "1"
