"""The memory of a policy survives a change of leader."""

import json
import os
import signal
from threading import Thread
from time import sleep

import pytest
from patience import Deadline

from fake_cluster import run_all
from headway.backend.kubernetes.client.state_object import StateObject
from headway.backend.worker import EventQueue, Worker
from headway.core.cycle.cluster_state import ClusterState
from headway.runtime import leader_state
from headway.runtime.operator import Operator
from reference_world import reference, served


def lead(fake, data, *, until):
    """In the main thread, which gets the signal; a helper looks, and ends it."""

    def helper():
        deadline = Deadline()
        while not until() and not deadline.passed():
            sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    Thread(target=helper, daemon=True).start()
    Operator("headway", data).go(fake.api())
    return data / "runs" / "latest" / "journal.jsonl"


def stored(fake):
    return json.loads(StateObject(fake.api(), "default").load() or "{}")


def test_the_next_leader_continues_with_the_memory_and_the_clock_of_the_last(
    fake, tmp_path, monkeypatch
):
    monkeypatch.setattr(leader_state, "EVERY", 0.2)
    names = ("x", "y", "z")
    for name in names:
        fake.submit(name)

    def served_all():
        run_all(fake)
        return len(served(stored(fake))) >= 2

    lead(fake, tmp_path, until=served_all)
    before = stored(fake)
    journal = lead(fake, tmp_path, until=lambda: stored(fake) != before)
    first = json.loads(journal.read_text().splitlines()[0])
    elapsed = first["at_s"] - before["state"]["seen"]["at"]
    assert 0 <= elapsed < 20, "its clock continues"
    old, new = served(before), served(first["memory"])
    assert (
        old.items() <= {name: min(done, new.get(name, 0.0)) for name, done in old.items()}.items()
    )
    assert all(new[name] - done <= elapsed + 1e-6 for name, done in old.items()), "one core a node"
    assert reference(before).keys() <= reference(first["memory"]).keys()


@pytest.mark.parametrize(
    "data", [b"no JSON", b'{"is":"Seen"}', b'{"is":"Nothing"}', b"[1]", b"[" * 100_000]
)
def test_a_state_that_cannot_be_read_is_as_good_as_none(fake, data):
    store = StateObject(fake.api(), "default")
    store.save(data)
    assert leader_state.load(store) is None


def test_a_damaged_state_is_ignored_with_a_warning(fake, caplog):
    StateObject(fake.api(), "default").save(b"{}")
    fake.change("configmaps", "headway-state-b-0", {"binaryData": {"state": "AAAA"}})
    assert leader_state.load(StateObject(fake.api(), "default")) is None
    assert "headway-state-b is damaged" in caplog.text


def test_a_state_that_was_not_written_is_written_at_the_next_look(fake):
    class Still:
        memory, state = {"x": 1}, ClusterState()

    events = EventQueue()
    worker, store = Worker("state", events), StateObject(fake.api(), "default")
    saver = leader_state.StateSaver(store, worker, Still(), ("p", 0.0))
    fake.refuse["POST", "configmaps", ""] = 500, "no"
    saver.look(0.0)
    events.wait(20.0)
    assert StateObject(fake.api(), "default").load() is None
    fake.refuse.clear()
    saver.look(10.0)
    events.wait(20.0)
    assert stored(fake)["policy"] == "p"
    worker.close()
    events.close()


def test_while_a_state_is_being_written_no_other_waits_for_that(fake):
    """Otherwise they pile up while the API server is busy, each as large as the state."""

    class Changing:
        memory, state = 0, ClusterState()

    loop, events = Changing(), EventQueue()
    worker, store = Worker("state", events), StateObject(fake.api(), "default")
    saver = leader_state.StateSaver(store, worker, loop, ("p", 0.0))
    fake.hanging.add(("POST", "configmaps", "default"))
    for i in range(5):
        loop.memory = i
        saver.look(10.0 * i)
    fake.hanging.clear()
    events.wait(20.0)
    assert stored(fake)["memory"] == 0
    loop.memory = 5
    saver.look(50.0)
    loop.memory = 6
    saver.look(51.0, last=True)
    worker.close()
    assert stored(fake)["memory"] == 6, "the last one is always written"
    events.close()


def test_an_operator_that_may_not_read_its_memory_starts_without_it(fake, caplog):
    fake.refuse["GET", "configmaps", ""] = 403, "configmaps is forbidden"
    assert leader_state.load(StateObject(fake.api(), "default")) is None
    assert "configmaps is forbidden" in caplog.text
