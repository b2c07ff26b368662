"""Quotas of users, and the lines that say what each of them has asked for."""

import json
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from patience import wait_for

from headway.errors import ConfigError
from headway.runtime.owner import Owner
from headway.server import audit
from headway.server.audit import Audited
from headway.server.limits import SubmitLimits
from headway.server.listener import CONNECTIONS, OF_USER, BoundedProtocol
from headway.server.problems import QuotaExceeded
from headway.server.requests import MAX_BODY_OF_USER
from headway.spec.quotas import Quotas, read_quotas
from machine_callers import ANN, BEN, call, job, public_server, submit

QUOTAS = {
    "default": {"queuedJobs": 3, "cores": 2, "memory": "1Gi"},
    "users": {str(BEN): {"queuedJobs": 5, "priority": 7}},
}


@pytest.fixture
def public():
    with public_server(QUOTAS) as path:
        yield path


def requesting(**requests):
    task = {"command": ["true"], "resources": {"requests": requests}}
    return {"name": "x", "spec": {"tasks": [task]}}


def test_a_user_has_at_most_so_many_jobs_that_have_not_ended_and_others_have_their_own(public):
    assert submit(public, ANN, job(), job(), job(), key="k")[0] == 201
    status, told = submit(public, ANN, job())
    assert (status, told["code"]) == (429, "quota")
    assert told["detail"] == f"{ANN} may have 3 jobs that have not ended, and has 3"
    assert submit(public, ANN, job(), key="k") == (200, {"jobs": ["x", "x-2", "x-3"]})
    assert submit(public, BEN, *[job()] * 5)[0] == 201
    assert submit(public, 0, *[job()] * 20)[0] == 201  # root has no quota


def test_submissions_at_the_same_time_do_not_exceed_it_together(public):
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: submit(public, ANN, job())[0], range(8)))
    assert found.count(201) <= 3
    assert set(found) == {201, 429}


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (requesting(cpu=2.5), "it requests 2.5 cores, and the quota of its user is 2"),
        (requesting(memory="2Gi"), "it requests 2 GiB of memory"),
        (job(priority=1), "its priority is 1, and its user may use at most 0"),
    ],
)
def test_a_job_that_never_fits_into_the_quota_is_refused_at_once(public, entry, why):
    status, told = submit(public, ANN, job(), entry)
    assert (status, told["where"]) == (403, "jobs[1]")
    assert told["detail"].startswith(why)
    assert call(public, ANN, "GET", "/jobs")[1]["jobs"] == []
    if "priority" in why:
        assert submit(public, BEN, entry)[0] == 201


def test_a_user_submits_so_often_in_a_minute_and_later_again():
    now = [0.0]
    quotas = Quotas.model_validate({"default": {"submissionsPerMinute": 6}})
    limits = SubmitLimits(quotas, None, lambda: now[0])
    ann, ben, root = Owner(ANN, ANN, "ann"), Owner(BEN, BEN), Owner(0, 0, "root")
    for _ in range(6):
        limits.count(ann)
    with pytest.raises(QuotaExceeded, match="ann may submit 6 times in a minute"):
        limits.count(ann)
    limits.count(ben)
    for _ in range(50):
        limits.count(root)
    now[0] = 10.0
    limits.count(ann)
    with pytest.raises(QuotaExceeded):
        limits.count(ann)


def test_one_user_cannot_use_up_the_connections_of_the_others(public):
    ready, done = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setgid(BEN)
            os.setuid(BEN)
            held = []
            for _ in range(2 * CONNECTIONS):
                held.append(socket.socket(socket.AF_UNIX))
                with suppress(OSError):
                    held[-1].connect(str(public))
            os.write(ready[1], b".")
            os.read(done[0], 1)
        finally:
            os._exit(0)
    try:
        os.read(ready[0], 1)
        assert call(public, ANN, "GET", "/jobs")[0] == 200
        wait_for(lambda: 0 < BoundedProtocol.of_user[BEN] <= OF_USER)
    finally:
        os.write(done[1], b".")
        os.waitpid(child, 0)
    wait_for(lambda: not BoundedProtocol.of_user[BEN])
    assert call(public, BEN, "GET", "/jobs")[0] == 200


def test_the_submission_of_a_user_has_a_bounded_size(public):
    body = {"jobs": [job()], "directory": "/", "env": {"A": "x" * MAX_BODY_OF_USER}}
    status, told = call(public, ANN, "POST", "/jobs", body)
    assert (status, "8 MiB" in told["detail"]) == (413, True)


def test_a_line_names_the_user_the_request_its_jobs_and_the_answer(public):
    submit(public, ANN, job("a"), job("b"))
    call(public, BEN, "GET", "/jobs")
    call(public, BEN, "GET", "/jobs/a/logs")
    call(public, BEN, "POST", "/jobs/a/cancel")
    call(public, BEN, "POST", "/jobs/missing/cancel")
    file = public.parent.parent / "data" / "audit.jsonl"
    assert file.stat().st_mode & 0o777 == 0o600
    found = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(x["uid"], x["request"], x["jobs"], x["status"]) for x in found] == [
        (ANN, "POST /api/v1/jobs", ["a", "b"], 201),
        (BEN, "GET /api/v1/jobs/a/logs", ["a"], 403),
        (BEN, "POST /api/v1/jobs/a/cancel", ["a"], 403),
        (BEN, "POST /api/v1/jobs/missing/cancel", [], 404),
    ]
    assert all(x["pid"] and x["time"] for x in found)


def test_a_long_file_is_rotated_and_a_full_disk_stops_no_request(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(audit, "MOST", 10)
    noting = Audited(None, tmp_path)
    scope = {"method": "POST", "path": "/x"}
    noting._note(scope, 201)
    noting._note(scope, 202)
    assert '"status": 201' in (tmp_path / "audit.1.jsonl").read_text()
    assert '"status": 202' in (tmp_path / "audit.jsonl").read_text()
    Audited(None, tmp_path / "missing")._note(scope, 203)
    assert "the audit line is not written" in caplog.text


def test_quotas_are_read_from_a_file_and_an_unknown_name_is_an_error(tmp_path):
    path = tmp_path / "quotas.yaml"
    path.write_text("default: {runningJobs: 4}\nusers: {ann: {memory: 8Gi}, '1000': {cores: 2}}\n")
    found = read_quotas(path)
    assert found.of(1, "ben").running_jobs == 4
    assert found.of(1, "ann").memory == 8 * 2**30
    assert found.of(1000, "").cores == 2
    path.write_text("default: {jobs: 4}\n")
    with pytest.raises(ConfigError, match="jobs"):
        read_quotas(path)
