"""Small parts of the Docker backend: limits, logs, statistics."""

import io
import os
import tarfile
from contextlib import contextmanager

import pytest

from headway.backend.checkpoints import newest
from headway.backend.docker import client, cpu_limits, log_follower, stats
from headway.backend.docker.file_sync import FileSync
from headway.core.model.job import Mode
from headway.metrics.reader import MAX_READ


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
    found = cpu_limits.share_body(host, 2.0, limit, 1.0)
    assert found == {"CpuShares": 1024, **asked}
    read = cpu_limits.share({**host, **found}, 2.0)[0]
    assert read is None if limit is None or limit > 2 else read is not None


def test_no_ceiling_is_never_zero():
    for host in ({}, {"CpuQuota": 50_000}):
        asked = cpu_limits.share_body(host, 2.0, None, 1.0)
        assert 0 not in asked.values()
        assert cpu_limits.share({**host, **asked}, 2.0) == (None, 1.0)


def test_a_memory_limit_is_always_set_with_its_swap_limit():
    assert cpu_limits.memory_body({}, 100) == {"Memory": 100, "MemorySwap": 100}
    assert cpu_limits.memory_body({"Memory": 100, "MemorySwap": -1}, 50) == {
        "Memory": 50,
        "MemorySwap": -1,
    }


def test_pieces_of_a_log_are_put_together_wherever_they_are_cut():
    said = b"".join(b"\1\0\0\0" + len(t).to_bytes(4, "big") + t for t in (b"one\n", b"two\n", b""))
    for at in range(len(said)):
        assert list(log_follower.frames([said[:at], said[at:]])) == [b"one\n", b"two\n", b""]
    assert list(client.lines([b"on", b"e\ntwo"])) == [b"one\n", b"two"]


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
        "networks": {
            "eth0": {"rx_bytes": 5, "tx_bytes": 6}, "eth1": {"rx_bytes": 1, "tx_bytes": 0},
        },
    }  # fmt: skip
    found = stats.to_sample(said)
    assert (found.cpu, found.memory, found.block_io) == (3.0, 40, 3)
    assert (found.periods, found.throttled) == (9, 4)
    assert found.network_io == 12
    assert (stats.to_sample({}).cpu, stats.to_sample({}).network_io) == (0, None)


def test_bytes_are_summed_over_the_interfaces_but_the_loopback():
    """As the kernel writes them: received first, sent ninth."""
    head = ["Inter-|   Receive    |  Transmit\n", " face |bytes    packets|bytes    packets\n"]
    lo = "    lo:     500       5    0    0    0     0          0         0      500       5    0\n"
    eth0 = "  eth0: 1200       9    0    0    0     0          0         0      300       4    0\n"
    assert stats.interface_bytes([*head, lo, eth0]) == 1500
    assert stats.interface_bytes([*head, lo]) is None


def test_a_process_in_the_network_of_the_machine_has_no_count_of_its_own():
    assert stats.network_io(os.getpid()) is None
    assert stats.network_io(2**22) is None


def test_by_the_sdk_a_checkpoint_counts_only_when_latest_names_it(tmp_path):
    """Else who saves itself for the first time would be stopped before it has."""
    part = tmp_path / "checkpoint" / "step-1-1.part"
    part.mkdir(parents=True)
    assert newest(tmp_path, Mode.SIGTERM).mark == ""
    (part / "weights").touch()
    assert newest(tmp_path, Mode.SDK).mark == ""
    assert newest(tmp_path, Mode.SIGTERM).mark
    (tmp_path / "checkpoint" / "LATEST").write_text("1")
    assert newest(tmp_path, Mode.SDK).mark == "1"


class Archive:
    """A client whose containers hold one checkpoint."""

    def __init__(self, *entries):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            for name, link in entries:
                info = tarfile.TarInfo(name)
                info.type, info.linkname = (
                    (tarfile.SYMTYPE, link) if link else (tarfile.REGTYPE, "")
                )
                info.mtime = 1000
                tar.addfile(info, io.BytesIO(b""))
        self.data = buffer.getvalue()

    def stat(self, container, path):
        del container, path
        return ""

    @contextmanager
    def fetch(self, container, path):
        del container, path
        yield io.BytesIO(self.data)


def downloaded(folder, *entries):
    (folder / "checkpoint").mkdir()
    FileSync(Archive(*entries), "x", folder, "", folder / "records").download()
    return sorted(p.name for p in (folder / "checkpoint").rglob("*"))


def test_files_and_links_of_a_checkpoint_are_downloaded_with_their_times(tmp_path):
    entries = [("checkpoint/a/weights", ""), ("checkpoint/last", "a/weights")]
    assert downloaded(tmp_path, *entries) == ["a", "last", "weights"]
    assert (tmp_path / "checkpoint" / "last").stat().st_mtime == 1000


def test_nothing_is_extracted_outside_of_a_checkpoint(tmp_path):
    up = [("checkpoint/p/q/up", "../.."), ("checkpoint/p/q/out", "up/../.."), ("../evil", "")]
    deep = [("checkpoint/p/q/out/evil", ""), ("checkpoint/etc", "/etc")]
    assert downloaded(tmp_path, ("checkpoint/a", ""), *up, *deep, ("/evil", "")).count("evil") <= 1
    assert not list(tmp_path.parent.glob("evil"))
    assert not (tmp_path / "evil").exists()
    assert not (tmp_path / "checkpoint" / "etc").exists()


class Reports(Archive):
    """A container whose reports grow."""

    def __init__(self):
        self.text = b""

    def stat(self, container, path):
        del container
        return str(len(self.text)) if path.endswith("reports.jsonl") else ""

    @contextmanager
    def fetch(self, container, path):
        del container, path
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            info = tarfile.TarInfo("reports.jsonl")
            info.size = len(self.text)
            tar.addfile(info, io.BytesIO(self.text))
        yield io.BytesIO(buffer.getvalue())


def test_reports_of_a_remote_container_are_copied_once_also_after_our_copy_was_truncated(tmp_path):
    there, ours = Reports(), tmp_path / "replica" / "reports.jsonl"
    ours.parent.mkdir()
    ours.write_bytes(b"of an earlier attempt\n")
    position = tmp_path / "records" / "reports.2"
    for i in range(3):
        there.text += b"line %d\n" % i
        FileSync(there, "x", ours.parent, "", position).sync()
    assert ours.read_bytes() == b"of an earlier attempt\nline 0\nline 1\nline 2\n"
    ours.write_bytes(b"cut\n")  # as the reader does above 64 MiB
    for i in range(3, 5):
        there.text += b"line %d\n" % i
        FileSync(there, "x", ours.parent, "", position).sync()
    assert ours.read_bytes() == b"cut\nline 3\nline 4\n"


def test_of_a_flood_of_remote_reports_the_last_part_is_copied(tmp_path):
    there = Reports()
    there.text = b"x" * 10**6 + b"\nlast\n"
    FileSync(there, "x", tmp_path, "", tmp_path / "records").sync()
    copied = (tmp_path / "reports.jsonl").read_bytes()
    assert copied.endswith(b"\nlast\n")
    assert len(copied) <= MAX_READ
