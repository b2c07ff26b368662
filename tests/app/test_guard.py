"""A thread that fails as nobody foresaw takes the process with it."""

from threading import Event

import pytest

from headway.backend.kubernetes import guard
from headway.backend.kubernetes import lease as leases
from headway.backend.kubernetes.lane import Lane
from headway.backend.kubernetes.lease import Lease
from headway.backend.kubernetes.store import Kind, Store, Watcher
from headway.backend.mailbox import Mailbox


@pytest.fixture
def left(monkeypatch):
    """Set when the process would have ended; `code` says how."""
    gone = Event()

    def leave(code):
        gone.code = code
        gone.set()

    monkeypatch.setattr(guard, "leave", leave)
    return gone


def broken(*_, **__):
    raise ZeroDivisionError("by zero")


def of_a_lane(api):
    Lane(Mailbox()).do(api.list)


def of_a_watch(api):
    store = Store(Kind("nodes", "/api/v1/nodes"), lambda before, new: None)
    Watcher(api, store, Mailbox(), down=broken, up=broken).begin()


def of_the_lease(api):
    Lease(api, "default", "headway", "one").hold(lambda: None)


@pytest.mark.parametrize("begin", [of_a_lane, of_a_watch, of_the_lease])
def test_what_a_thread_did_not_foresee_ends_the_process(fake, monkeypatch, caplog, left, begin):
    monkeypatch.setattr(leases, "RETRY", 0.02)
    api = fake.api()
    api.list = api.get = broken
    begin(api)
    assert left.wait(5)
    assert left.code == guard.LOST
    assert "ZeroDivisionError: by zero" in caplog.text
