"""The first client of `/api/v1` (commit c1b253c) works with this server.

`SENT` are requests that this client sent when it was run; `READ` are the fields of a job that it
reads. If a change here is needed, a client of an earlier version breaks: keep the old way too, or
serve it under a new path.
"""

import json
import socket
from contextlib import closing, contextmanager
from http.client import HTTPConnection

from patience import wait_for

READ = {
    "run", "job", "phase", "nodes", "step", "total_steps", "value", "cores", "share", "limit",
    "eta_s", "guarantee_s", "submitted_s", "started_s", "finished_s", "reason", "decided_s", "at_s",
    "began",
}  # fmt: skip
JOBS = [
    {"name": "quick", "spec": {"tasks": [{"command": ["echo", "step 1/1 loss: 0.5"]}]}},
    {"name": "long", "spec": {"tasks": [{"command": ["sleep", "100"]}]}},
]
SUBMITTED = {"jobs": JOBS, "directory": "/tmp", "env": {"COLOUR": "red"}}
SENT = {
    "submit": ("POST", "/api/v1/jobs", SUBMITTED, {"Idempotency-Key": "first-client"}),
    "active": ("GET", "/api/v1/jobs?state=active&limit=500&after=0"),
    "page": ("GET", "/api/v1/jobs?state=all&limit=1&after=1&phase=running"),
    "events": ("GET", "/api/v1/events"),
    "job": ("GET", "/api/v1/jobs/long"),
    "logs": ("GET", "/api/v1/jobs/quick/logs?lines=2&replica=main-0"),
    "explain": ("GET", "/api/v1/jobs/quick/explain"),
    "server": ("GET", "/api/v1/server"),
    "pause": ("POST", "/api/v1/jobs/long/pause"),
    "resume": ("POST", "/api/v1/jobs/long/resume"),
    "move": ("POST", "/api/v1/jobs/long/move", {"to": "node-1"}),
    "scale": ("POST", "/api/v1/jobs/long/scale", {"task": "main", "count": 2}),
    "cancel": ("POST", "/api/v1/jobs/long/cancel"),
}


class OverSocket(HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect("data/runs/latest/api.sock")


@contextmanager
def answer_to(name):
    method, path, body, headers = (*SENT[name], None, None)[:4]
    kind = {} if body is None else {"Content-Type": "application/json"}
    with closing(OverSocket("headway", timeout=60)) as connection:
        connection.request(method, path, body and json.dumps(body), {**kind, **(headers or {})})
        with connection.getresponse() as answer:
            yield answer


def read(name):
    with answer_to(name) as answer:
        return answer.status, answer.read()


def json_of(name):
    status, data = read(name)
    assert status < 400, data
    return json.loads(data)


def test_the_first_client_can_list_follow_explain_and_cancel_jobs(serving, tmp_path):
    serving()
    wait_for((tmp_path / "data" / "runs" / "latest" / "api.sock").exists)
    assert json_of("submit") == {"jobs": ["quick", "long"]}
    assert json_of("submit") == {"jobs": ["quick", "long"]}, "the key adds nothing"
    with answer_to("events") as events:
        while not (line := events.readline()).startswith(b"data: "):
            assert line
    assert json.loads(line[6:]).keys() >= READ
    wait_for(lambda: json_of("job")["phase"] == "running")
    active = json_of("active")
    assert "long" in [job["job"] for job in active["jobs"]]
    assert active["next"] is None
    assert active["jobs"][0].keys() >= READ
    assert [job["job"] for job in json_of("page")["jobs"]] == ["long"]
    wait_for(lambda: read("logs") == (200, b"step 1/1 loss: 0.5\n"))
    assert json_of("explain").keys() >= {"job", "known", "events"}
    assert json_of("server").keys() >= {"version", "run", "policy", "nodes"}
    refused = {"pause": "refused", "resume": "refused", "move": "unknown-name", "scale": "refused"}
    for name, code in refused.items():
        status, data = read(name)
        problem = json.loads(data)
        assert (status >= 400, problem["code"]) == (True, code)
        assert problem.keys() >= {"detail", "where", "hint"}
    json_of("cancel")
    wait_for(lambda: json_of("job")["phase"] == "cancelled")
    assert json_of("job").keys() >= READ
