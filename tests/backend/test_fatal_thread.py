"""A thread that fails as nobody foresaw takes the process with it."""

from threading import Event

import pytest

from headway.backend.kubernetes.client import fatal_thread
from headway.backend.kubernetes.client import leader_election as leases
from headway.backend.kubernetes.client.informer import Reflector, Store
from headway.backend.kubernetes.client.leader_election import LeaderElection
from headway.backend.worker import EventQueue, Worker


@pytest.fixture
def left(monkeypatch):
    """Set when the process would have ended; `code` says how."""
    gone = Event()

    def leave(code):
        gone.code = code
        gone.set()

    monkeypatch.setattr(fatal_thread, "leave", leave)
    return gone


def broken(*_, **__):
    raise ZeroDivisionError("by zero")


def of_a_lane(api):
    Worker("kubernetes", EventQueue(), crashed=fatal_thread.exit_process).do(api.list)


def of_a_watch(api):
    store = Store("/api/v1/nodes", lambda before, new: None)
    Reflector(api, store, EventQueue(), broken).begin()


def of_the_lease(api):
    LeaderElection(api, "default", "headway", "one").hold(lambda: None)


@pytest.mark.parametrize("begin", [of_a_lane, of_a_watch, of_the_lease])
def test_what_a_thread_did_not_foresee_ends_the_process(fake, monkeypatch, caplog, left, begin):
    monkeypatch.setattr(leases, "RETRY", 0.02)
    api = fake.api()
    api.list = api.get = broken
    begin(api)
    assert left.wait(5)
    assert left.code == fatal_thread.LOST
    assert "ZeroDivisionError: by zero" in caplog.text
