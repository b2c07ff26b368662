"""Several users of one server: the kernel says which one calls, and one module what it may do."""

import asyncio
import json

import pytest

from headway.client import Client
from headway.errors import ConfigError
from headway.runtime.job_status import NAMES, JobStatus
from headway.runtime.run_status import run_status
from headway.runtime.server import start_server
from headway.runtime.submissions import Submissions
from headway.server.access import Caller, may, seen_by
from headway.server.events import Changes
from headway.server.listener import Listener, bind_public
from machine_callers import ANN, BEN, call, job, public_server, submit

PUBLIC = {"run", "job", "phase", "share", "uid", "user"}


@pytest.fixture
def public():
    with public_server() as path:
        yield path


@pytest.fixture
def run(public):
    [found] = (public.parent.parent / "data" / "runs").glob("2*")
    return found


@pytest.mark.parametrize(
    ("uid", "action", "owner", "allowed"),
    [
        (ANN, "cancel", ANN, True),
        (0, "cancel", ANN, True),
        (BEN, "cancel", ANN, False),
        (BEN, "logs", ANN, False),
        (BEN, "list", ANN, True),
        (BEN, "submit", ANN, True),
        (ANN, "cancel", 0, False),
        (BEN, "cancel", None, True),
    ],
)
def test_the_owner_and_root_may_do_everything_and_others_list_and_submit(
    uid, action, owner, allowed
):
    assert may(Caller(uid, uid), action, owner) is allowed


def test_others_see_the_name_user_phase_and_share_of_a_job_and_nothing_else():
    told = {name: 1.0 for name in NAMES if name not in PUBLIC | {"nodes", "reason", "at_s"}}
    status = JobStatus(
        run="r", job="x", phase="running", share=0.5, uid=ANN, user="ann", reason="why", at_s=3.0,
        nodes=("n",), **told,
    )  # fmt: skip
    seen = seen_by(Caller(BEN, BEN), status)
    assert seen == JobStatus(run="r", job="x", phase="running", share=0.5, uid=ANN, user="ann")
    assert seen_by(Caller(ANN, ANN), status) is status


def test_a_listener_gets_of_the_jobs_of_others_what_it_may_see():
    changes = Changes()

    async def listen(uid):
        found = changes.listen(0, Caller(uid, uid))
        await anext(found)
        return json.loads((await anext(found)).partition("data: ")[2])

    changes.update([JobStatus(run="r", job="x", phase="running", step=7.0, uid=ANN, user="ann")])
    assert asyncio.run(listen(ANN))["step"] == 7.0
    assert asyncio.run(listen(BEN))["step"] is None


@pytest.mark.parametrize("path", ["/server/stop", "/nodes/machine/drain", "/nodes/machine/undrain"])
def test_what_concerns_all_jobs_is_for_root(public, path):
    status, said = call(public, ANN, "POST", path, {"jobs": "keep"})
    assert (status, said["code"]) == (403, "denied")
    assert "only root may" in said["detail"]


def test_a_job_belongs_to_its_caller_whatever_the_caller_says(public, run):
    assert submit(public, ANN, job()) == (201, {"jobs": ["x"]})
    assert submit(public, BEN, job()) == (201, {"jobs": ["x-2"]})
    owners = [found.owner for found in Submissions(run).after(0)]
    assert [(o.uid, o.gid, o.name) for o in owners] == [(ANN, ANN, ""), (BEN, BEN, "")]
    with Client(public) as root:
        assert [(found.job, found.user) for found in root.jobs()] == [
            ("x", str(ANN)),
            ("x-2", str(BEN)),
        ]


@pytest.mark.parametrize("wish", ["cancel", "pause", "resume", "move", "scale"])
def test_no_request_about_the_job_of_another_user_is_accepted(public, wish):
    submit(public, ANN, job())
    body = {"move": {"to": "n"}, "scale": {"task": "main", "count": 1}}.get(wish)
    status, told = call(public, BEN, "POST", f"/jobs/x/{wish}", body)
    assert (status, told["code"]) == (403, "denied")
    assert told["detail"] == (f"permission denied: job x belongs to {ANN}, and you are {BEN}")


@pytest.mark.parametrize("what", ["logs", "explain"])
def test_nothing_can_be_read_of_the_job_of_another_user(public, what):
    submit(public, ANN, job())
    assert call(public, BEN, "GET", f"/jobs/x/{what}")[0] == 403
    assert call(public, ANN, "GET", f"/jobs/x/{what}")[0] == 200
    for where in ("/jobs/x", "/jobs"):
        status, found = call(public, BEN, "GET", where)
        found = found.get("jobs", [found])[0]
        assert (status, found["phase"], found["user"]) == (200, "pending", str(ANN))
        assert {name for name in NAMES if found[name] not in (None, "", 0.0, [])} <= PUBLIC


def test_the_key_of_another_user_repeats_nothing(public):
    assert submit(public, ANN, job(), key="k") == (201, {"jobs": ["x"]})
    assert submit(public, BEN, job(), key="k") == (201, {"jobs": ["x-2"]})
    assert submit(public, ANN, job(), key="k") == (200, {"jobs": ["x"]})


def test_the_server_reads_no_file_for_a_user_and_no_job_names_another_user(public):
    status, told = submit(public, BEN, {"name": "x", "manifest": "/etc/shadow"})
    assert (status, "reads no files" in told["detail"]) == (422, True)
    status, told = submit(public, BEN, job(runAs="root"))
    assert (status, "runs as its submitter" in told["detail"]) == (422, True)


def test_the_socket_of_an_active_server_is_not_replaced(public):
    with pytest.raises(ConfigError, match="another server"):
        bind_public(public)
    assert call(public, BEN, "GET", "/jobs")[0] == 200


def test_a_job_of_a_server_with_one_user_has_no_owner(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWAY_ENFORCEMENT", "nice")
    server = start_server(tmp_path / "data", "fair")
    with Listener(server), Client(server.run.folder.path) as client:
        client.submit([job()], directory="/")
        [found] = run_status(server.run.folder)
    server.run.backend.close()
    server.run.journal.close()
    server.submissions.close()
    server.run.folder.unlock()
    assert (found.uid, found.user) == (None, "")
