"""The state for the next leader, as config maps on an API server in memory."""

import random

import pytest

from headway.backend.kubernetes.client.state_object import PARTS, StateObject, StateTooLarge
from headway.errors import Declined


def noise(count):
    """Bytes that cannot be compressed."""
    return random.Random(count).randbytes(count)


def test_what_was_written_last_is_read_by_the_next(fake):
    one = StateObject(fake.api(), "home")
    assert one.load() is None
    for data in (b"first", b"second", b"third"):
        one.save(data)
        assert StateObject(fake.api(), "home").load() == data
    two = StateObject(fake.api(), "home")
    two.load()
    two.save(b"fourth")
    assert StateObject(fake.api(), "home").load() == b"fourth"


def test_a_large_state_has_several_parts_and_a_smaller_one_fewer(fake):
    one = StateObject(fake.api(), "home", part=1000)
    one.save(noise(2500))
    assert len(fake.all("configmaps")) == 3
    assert StateObject(fake.api(), "home", part=1000).load() == noise(2500)
    for data in (b"small", b"smaller", b"smallest"):
        one.save(data)
        assert StateObject(fake.api(), "home").load() == data
    with pytest.raises(StateTooLarge, match="at most 4000"):
        one.save(noise(PARTS * 1000))


def test_a_leader_that_dies_while_it_writes_leaves_the_state_before(fake):
    one = StateObject(fake.api(), "home", part=1000)
    one.save(noise(2500))
    one.save(noise(2600))
    fake.refuse["PUT", "configmaps", "headway-state-b-1", ""] = 500, "no"
    with pytest.raises(Exception, match="no"):
        one.save(noise(2700))
    assert StateObject(fake.api(), "home").load() == noise(2600)
    fake.refuse.clear()
    one.save(noise(2700))
    assert StateObject(fake.api(), "home").load() == noise(2700)


def test_a_leader_does_not_overwrite_what_a_later_one_has_written(fake):
    old, new = (StateObject(fake.api(), "home") for _ in range(2))
    old.save(b"1")
    old.save(b"2")
    new.load()
    new.save(b"3")
    new.save(b"4")
    with pytest.raises(Declined):
        old.save(b"of the old one")
    assert StateObject(fake.api(), "home").load() == b"4"


def test_an_object_that_may_not_be_read_is_not_taken_for_none(fake):
    fake.refuse["GET", "configmaps", ""] = 400, "no"
    with pytest.raises(Declined):
        StateObject(fake.api(), "home").load()
