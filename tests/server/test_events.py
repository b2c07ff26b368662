"""Events: a client that connects again misses nothing, whatever happened to the server."""

import asyncio
import json
import signal
import sys
from threading import Thread

import pytest
from patience import wait_for

from headway import client as clients
from headway.client import Client
from headway.errors import NoServer
from headway.runtime.job_status import JobStatus
from headway.server.access import Caller
from headway.server.events import KEPT, Changes
from serving import submit

WORKS = """
import os, sys, time
for step in range(1, 4):
    print(f"step {step}/3 loss: {1 / step:.3f}", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
"""


def status(name, **more):
    return JobStatus(run="r", job=name, **{"phase": "running", **more})


def heard(changes, after, ended=()):
    """The events since one, without waiting for others: their numbers and jobs."""

    async def listen():
        found = changes.listen(after, Caller(0, 0), ended)
        await anext(found)
        changes.close()
        return [text async for text in found]

    texts = asyncio.run(listen())
    return [
        (text.partition("id: ")[2].split("\n")[0], json.loads(data)["job"] if data else None)
        for text in texts
        for data in [text.partition("data: ")[2]]
    ]


def test_the_numbers_of_events_grow_over_several_servers():
    time = [1000.0]
    first = Changes(lambda: time[0])
    first.publish(status("x"))
    [(number, _)] = heard(first, 1_000_000)
    time[0] += 5
    second = Changes(lambda: time[0])
    second.publish(status("y"))
    [*_, (later, _)] = heard(second, int(number))
    assert int(later) > int(number)


def test_a_client_of_the_previous_server_gets_all_jobs_and_those_that_ended_since():
    changes = Changes(lambda: 1000.0)
    changes.update([status("x"), status("y")])
    told = heard(changes, 999_000, [status("z", phase="succeeded")])
    assert [name for _, name in told] == ["z", "x", "y", None]
    assert [number for number, _ in told] == ["", "", "", "1000002"], "numbered when all was sent"


def test_a_client_that_was_away_for_long_gets_each_job_once():
    changes = Changes(lambda: 0.0)
    for step in range(KEPT + 10):
        changes.update([status("x", step=step), status("y")])
    assert [name for _, name in heard(changes, 3)] == ["x", "y", None]
    assert not changes.has_all_since(3)
    assert changes.has_all_since(KEPT)


def test_a_number_that_no_server_has_given_is_not_taken_for_a_known_one():
    changes = Changes(lambda: 0.0)
    changes.update([status("x")])
    assert [name for _, name in heard(changes, 77)] == ["x", None]


def test_a_job_that_has_just_ended_is_shown_as_ended():
    changes = Changes(lambda: 0.0)
    changes.update([status("x"), status("y")])
    changes.publish(status("x", phase="succeeded"))
    assert [name for _, name in heard(changes, 77)] == ["x", "y", None], "its end and then the rest"


@pytest.fixture
def heard_by_client(tmp_path):
    """What a client hears of all jobs, in a thread of its own."""
    seen, threads = [], []

    def listen():
        with Client.of(tmp_path / "data") as client:
            for change in client.changes(patience=60.0):
                seen.append((change.job, change.phase))
                if change.job == "last":
                    return

    def begin():
        threads.append(Thread(target=listen))
        threads[-1].start()
        with Client.of(tmp_path / "data") as client:
            wait_for(lambda: b"headway_event_listeners 1" in client._call("GET", "/metrics"))
        return seen

    yield begin
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_client_is_notified_of_a_job_that_ends_while_the_server_restarts(
    serving, headway, heard_by_client, tmp_path, number
):
    (tmp_path / "train.py").write_text(WORKS)
    first = serving()
    seen = heard_by_client()
    submit(headway, "--name", "one", "--", sys.executable, "train.py", "one-may-end")
    submit(headway, "--name", "two", "--", sys.executable, "train.py", "two-may-end")
    wait_for(lambda: ("two", "running") in seen and ("one", "running") in seen)
    first.send_signal(number)
    first.communicate()
    (tmp_path / "one-may-end").touch()
    serving()
    wait_for(lambda: ("one", "succeeded") in seen)
    (tmp_path / "two-may-end").touch()
    wait_for(lambda: ("two", "succeeded") in seen)
    submit(headway, "--name", "last", "--", "true")


def test_the_changes_of_a_job_go_on_after_a_restart_of_the_server(serving, headway, tmp_path):
    (tmp_path / "train.py").write_text(WORKS)
    first = serving()
    submit(headway, "--", sys.executable, "train.py", "go")
    with Client.of() as client:
        changes = client.changes("train", patience=60.0)
        assert next(changes).job == "train"
        first.send_signal(signal.SIGKILL)
        first.communicate()
        serving()
        (tmp_path / "go").touch()
        *_, end = changes
        assert end.phase == "succeeded"


def test_changes_end_if_the_server_does_not_return(serving, headway, tmp_path):
    (tmp_path / "train.py").write_text(WORKS)
    first = serving()
    submit(headway, "--", sys.executable, "train.py", "go")
    with Client.of() as client:
        changes = client.changes("train", patience=0.1)
        assert next(changes).job == "train"
        first.send_signal(signal.SIGTERM)
        first.communicate()
        assert all(not change.ended for change in changes)


def test_the_first_connection_is_not_waited_for(tmp_path):
    with Client(tmp_path) as client, pytest.raises(NoServer):
        next(client.changes(patience=clients.PATIENCE))
