"""What several runs on one machine know of each other's memory."""

import os

import pytest

from headway.backend.promised_memory import PromisedMemory


@pytest.fixture
def registry(tmp_path):
    before = os.umask(0o077)
    yield tmp_path / "registry"
    os.umask(before)


def test_another_run_sees_what_was_promised_whatever_the_umask(registry):
    ours, other = PromisedMemory("a", registry), PromisedMemory("b", registry)
    ours.publish(2.0**30)
    (record,) = registry.iterdir()
    assert record.stat().st_mode & 0o777 == 0o644
    assert (other.of_others(), ours.of_others()) == (2.0**30, 0.0)
    ours.close()
    assert other.of_others() == 0.0


def test_nothing_is_written_through_a_link_to_another_folder(registry, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    registry.symlink_to(elsewhere)
    PromisedMemory("a", registry).publish(2.0**30)
    assert list(elsewhere.iterdir()) == []
