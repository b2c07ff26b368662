"""The state for the next leader, as config maps on an API server in memory."""

import random

import pytest

from headway.backend.kubernetes.client.state_object import PARTS, StateObject, StateTooLarge
from headway.errors import Declined, Unreachable


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


@pytest.mark.parametrize("call", [("POST", ""), ("PUT", "headway-state-b-0")])
def test_a_write_whose_answer_was_lost_does_not_prevent_later_ones(fake, call):
    one = StateObject(fake.api(), "home")
    one.load()
    for data in (b"1", b"2") if call[0] == "PUT" else ():
        one.save(data)
    fake.unanswered.add((call[0], "configmaps", call[1]))
    with pytest.raises(Unreachable):
        one.save(b"lost")
    assert StateObject(fake.api(), "home").load() == b"lost", "it was carried out"
    for data in (b"3", b"4", b"5"):
        one.save(data)
        assert StateObject(fake.api(), "home").load() == data


def test_after_a_lost_answer_it_does_not_overwrite_what_a_later_leader_has_written(fake):
    old, new = (StateObject(fake.api(), "home") for _ in range(2))
    old.save(b"1")
    old.save(b"2")
    fake.unanswered.add(("PUT", "configmaps", "headway-state-b-0"))
    with pytest.raises(Unreachable):
        old.save(b"3")
    new.load()
    new.save(b"4")
    for _ in range(3):
        with pytest.raises(Declined, match="another process has written"):
            old.save(b"of the old one")
    new.save(b"5")
    assert StateObject(fake.api(), "home").load() == b"5"


def test_attempts_that_stop_half_way_neither_mix_nor_harm_the_state_before(fake):
    one = StateObject(fake.api(), "home", part=1000)
    one.save(noise(2500))
    one.save(noise(2600))
    fake.unanswered.add(("PUT", "configmaps", "headway-state-b-2"))
    with pytest.raises(Unreachable):
        one.save(noise(2700))  # complete, but it does not know
    for count, part in ((2800, 1), (2900, 2), (2950, 1)):
        for slot in "ab":
            fake.refuse["PUT", "configmaps", f"headway-state-{slot}-{part}", ""] = 500, "no"
        with pytest.raises(Unreachable):
            one.save(noise(count))
        fake.refuse.clear()
        assert StateObject(fake.api(), "home").load() == noise(2700)


def test_an_object_that_was_deleted_is_created_again(fake):
    one = StateObject(fake.api(), "home")
    for data in (b"1", b"2"):
        one.save(data)
    fake.drop("configmaps", "headway-state-b-0", "home")
    with pytest.raises(Declined):
        one.save(b"3")
    one.save(b"4")
    assert StateObject(fake.api(), "home").load() == b"4"


@pytest.mark.parametrize(
    "damage",
    [
        {"binaryData": {"state": "AAAA"}},
        {"binaryData": {"state": "A"}},
        {"binaryData": None},
        {"data": {"parts": "many"}},
        {"data": {"parts": "9" * 5000}},
        {"data": {"parts": "1000000"}},
        {"data": {"number": "-1"}},
        {"data": None},
    ],
)
def test_a_damaged_state_is_ignored_and_written_again(fake, damage):
    one = StateObject(fake.api(), "home")
    for data in (b"1", b"2", b"3"):
        one.save(data)
    fake.change("configmaps", "headway-state-b-0", damage, "home")
    two = StateObject(fake.api(), "home")
    assert two.load() in (b"2", b"3")
    for data in (b"4", b"5"):
        two.save(data)
        assert StateObject(fake.api(), "home").load() == data


def test_an_object_that_may_not_be_read_is_not_taken_for_none(fake):
    fake.refuse["GET", "configmaps", ""] = 400, "no"
    with pytest.raises(Declined):
        StateObject(fake.api(), "home").load()
