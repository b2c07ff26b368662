"""Reports over HTTP: the same script, in a pod. The operator may be away; the training goes on."""

import os
import random
import subprocess
import sys
from itertools import pairwise
from time import monotonic

import pytest
from patience import PATIENCE, wait_for

import headway
from headway.backend.kubernetes.reports.server import Refusal
from headway.backend.kubernetes.reports.token_review import Client
from headway.sdk import http_sender
from headway.sdk.http_sender import MOST, HttpSender
from reporting import HOST, resolved, served

NAME = "ann"


class Operator:
    """What it has taken in; it may refuse."""

    def __init__(self):
        self.reports, self.status, self.checkpoint, self.answers = [], 200, False, 0
        self.times, self.largest, self.refused = [], 0, None

    def __call__(self, client, body):
        assert client.pod == "uid"
        if self.status != 200:
            self.answers += 1
            raise Refusal(self.status, "no")
        if self.refused in body["reports"]:
            raise Refusal(413, "too large")
        self.times.append(monotonic())
        self.largest = max(self.largest, len(body["reports"]))
        self.reports += body["reports"]
        return {"checkpoint": self.checkpoint}


@pytest.fixture
def operator():
    return Operator()


@pytest.fixture
def there(tmp_path, operator, monkeypatch):
    """A server under the name of the operator's Service, and the environment of a pod."""
    known = {NAME: Client("default:default", "uid", "a")}
    server = served(tmp_path, known.get, {"/v1/reports": operator})
    with server as made, resolved(monkeypatch, tmp_path, NAME):
        monkeypatch.setenv("HEADWAY_DIR", str(tmp_path))
        monkeypatch.setenv("HEADWAY_CHECKPOINT_DIR", str(tmp_path / "checkpoint"))
        monkeypatch.setenv("HEADWAY_REPORTS_URL", f"https://{HOST}:{made.server_port}/v1/reports")
        monkeypatch.setenv("HEADWAY_REPORTS_TOKEN", str(tmp_path / "token"))
        monkeypatch.setenv("HEADWAY_REPORTS_CA", str(tmp_path / "ca.crt"))
        monkeypatch.setattr(http_sender, "PAUSE", 0.05)
        monkeypatch.setattr(http_sender, "AGAIN", 0.05)
        monkeypatch.setattr(http_sender, "LONGEST", 0.1)
        yield made


def sender(there, tmp_path):
    url = f"https://{HOST}:{there.server_port}/v1/reports"
    return HttpSender(url, str(tmp_path / "token"), str(tmp_path / "ca.crt"))


def test_a_script_in_a_pod_reports_to_the_operator_and_not_to_a_file(there, operator, tmp_path):
    run = headway.attach(total_steps=10)
    run.report(1, loss=0.5)
    wait_for(lambda: len(operator.reports) == 2)
    assert operator.reports == [{"total_steps": 10}, {"step": 1, "loss": 0.5}]
    assert not (tmp_path / "reports.jsonl").exists()
    assert there


@pytest.mark.usefixtures("there")
def test_the_answer_requests_a_checkpoint_until_one_is_saved(operator):
    operator.checkpoint = True
    run = headway.attach(total_steps=10)
    wait_for(run.should_checkpoint)
    operator.checkpoint = False
    assert run.save(3, lambda folder: (folder / "state").write_text("x"))
    assert not run.should_checkpoint()
    wait_for(lambda: {"checkpoint": "step-3-0"} in operator.reports)


@pytest.mark.usefixtures("there")
def test_a_script_that_is_silent_for_long_is_asked_too(operator):
    run = headway.attach(total_steps=10)
    wait_for(lambda: operator.reports)
    operator.checkpoint = True
    wait_for(run.should_checkpoint)


@pytest.mark.usefixtures("there")
def test_a_script_that_never_reports_is_asked_too(operator):
    operator.checkpoint = True
    run = headway.attach()
    wait_for(run.should_checkpoint)
    assert operator.reports == []


@pytest.mark.usefixtures("there")
def test_a_script_that_reports_rarely_is_asked_at_the_same_interval(operator, monkeypatch):
    monkeypatch.setattr(http_sender, "PAUSE", 0.5)
    run = headway.attach(total_steps=10)
    wait_for(lambda: len(operator.times) >= 5)
    assert min(b - a for a, b in pairwise(operator.times)) < 0.9
    assert not run.should_checkpoint()


@pytest.mark.usefixtures("there")
@pytest.mark.parametrize("status", [401, 404, 503])
def test_reports_wait_while_the_operator_refuses_and_arrive_in_order(operator, status):
    operator.status = status
    run = headway.attach(total_steps=10)
    for step in range(200):
        run.report(step, loss=1.0)
        run.flush()
    operator.status = 200
    wait_for(lambda: len(operator.reports) == 201)
    assert [r.get("step") for r in operator.reports] == [None, *range(200)]


def test_reports_wait_for_a_certificate_that_comes_later(there, operator, tmp_path):
    bundle = tmp_path / "ca.crt"
    certificate = bundle.read_text()
    bundle.write_text("")
    made = sender(there, tmp_path)
    made.put({"step": 1})
    assert not made.send()
    bundle.write_text(certificate)
    wait_for(lambda: operator.reports == [{"step": 1}])


def test_the_newest_thousand_wait_and_no_call_blocks(there, operator, tmp_path):
    operator.status = 503
    made, began = sender(there, tmp_path), monotonic()
    for step in range(3 * MOST):
        made.put({"step": step})
    assert monotonic() - began < PATIENCE / 2
    operator.status = 200
    wait_for(lambda: operator.reports and operator.reports[-1]["step"] == 3 * MOST - 1)
    steps = [r["step"] for r in operator.reports]  # a request may have been under way
    assert steps[-MOST:] == list(range(2 * MOST, 3 * MOST))
    assert len(steps) <= 2 * MOST


def test_a_batch_that_is_invalid_is_dropped(there, operator, tmp_path):
    operator.status = 400
    made = sender(there, tmp_path)
    made.put({"step": 1})
    wait_for(lambda: not made._waiting)
    operator.status = 200
    made.put({"step": 2})
    wait_for(lambda: operator.reports == [{"step": 2}])


def test_many_large_reports_arrive_in_several_requests(there, operator, tmp_path):
    operator.status = 503
    made, metrics = sender(there, tmp_path), {f"metric_{i}": 0.123456789 for i in range(100)}
    for step in range(MOST - 1):
        made.put({"step": step, **metrics})
    made.put({"checkpoint": "step-9-0"})
    operator.status = 200
    wait_for(lambda: {"checkpoint": "step-9-0"} in operator.reports)
    assert [r.get("step") for r in operator.reports] == [*range(MOST - 1), None]
    assert operator.largest < MOST


def test_a_report_that_is_too_large_does_not_stop_the_others(there, operator, tmp_path):
    made = sender(there, tmp_path)
    made.put({"step": 1, "x" * 2**20: 1.0})
    made.put({"step": 2})
    wait_for(lambda: {"step": 2} in operator.reports)
    assert "was not sent" in operator.reports[0]["trouble"]


def test_a_report_that_is_refused_for_its_size_does_not_stop_the_others(there, operator, tmp_path):
    operator.refused = {"step": 3}
    operator.status = 503
    made = sender(there, tmp_path)
    for step in range(8):
        made.put({"step": step})
    operator.status = 200
    wait_for(lambda: {"step": 7} in operator.reports)
    assert [r["step"] for r in operator.reports] == [0, 1, 2, 4, 5, 6, 7]


def test_a_report_that_is_no_json_does_not_stop_the_others(there, operator, tmp_path):
    made = sender(there, tmp_path)
    made.put({"step": 1})
    with pytest.raises(TypeError):
        made.put({"step": object()})
    made.put({"step": 2})
    wait_for(lambda: operator.reports == [{"step": 1}, {"step": 2}])


def test_an_operator_that_is_nowhere_does_not_disturb_the_training(tmp_path):
    made = HttpSender("https://127.0.0.1:1/v1/reports", str(tmp_path / "none"), str(tmp_path))
    made.put({"step": 1})
    assert not made.send()
    assert not made.checkpoint


SCRIPT = """
import os, socket
resolve = socket.getaddrinfo
socket.getaddrinfo = lambda host, *a, **k: resolve("127.0.0.1", *a, **k)
import headway
run = headway.attach(total_steps=5)
if os.fork() == 0:
    run.report(1, loss=1.0)
    run.flush()
    run._finish()
    os._exit(0)
os.wait()
for step in range(2, 6):
    run.report(step, loss=1.0)
"""


@pytest.mark.usefixtures("there")
def test_what_waits_at_the_exit_is_sent_also_by_a_forked_process(operator):
    subprocess.run([sys.executable, "-c", SCRIPT], check=True, env=dict(os.environ))
    steps = [r.get("step") for r in operator.reports]
    assert {None, 1, 5} <= set(steps)


@pytest.mark.usefixtures("there")
def test_the_random_numbers_of_a_script_are_its_own(operator):
    operator.status = 503
    random.seed(7)
    before = random.getstate()
    run = headway.attach(total_steps=10)
    wait_for(lambda: operator.answers > 2)
    assert random.getstate() == before
    assert run.managed
