"""Reports of jobs over HTTP: each for itself, with its token, as if its SDK had written them."""

import json
import sys
from http.client import HTTPConnection

import pytest
from patience import PATIENCE, wait_for

from headway.backend.report_channel import ReportChannel, Reporter
from headway.core.model.units import ReplicaId
from headway.metrics.http_reports import KUBEFLOW, LARGEST_BODY, SDK
from headway.runtime.run_status import find_server
from serving import listed, submit

REPORTS = """
import json, os, time, urllib.request
url = os.environ["KUBEFLOW_TRAINER_SERVER_URL"]
token = open(os.environ["KUBEFLOW_TRAINER_SERVER_TOKEN"]).read()
metrics = [{"name": "loss", "value": "0.25"}, {"name": "current_step", "value": "30"}]
metrics += [{"name": "total_steps", "value": "120"}]
body = json.dumps({"trainerStatus": {"progressPercentage": 25, "metrics": metrics}}).encode()
head = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
while not os.path.exists("go"):
    urllib.request.urlopen(urllib.request.Request(url, body, head), timeout=5)
    time.sleep(0.2)
"""


@pytest.fixture
def channel():
    return ReportChannel(b"k" * 32, 1)


def test_a_token_names_its_replica_and_cannot_be_changed(channel):
    one = Reporter(ReplicaId("train/worker-0"), "loss")
    token = channel.token(one)
    assert channel.reporter(token) == one
    payload, _, signature = token.partition(".")
    other = channel.token(Reporter(ReplicaId("other/worker-0"), "loss"))
    for forged in (f"{other.partition('.')[0]}.{signature}", payload, "", ".", token + "0", "é.é"):
        assert channel.reporter(forged) is None
    assert ReportChannel(b"x" * 32).reporter(token) is None


def test_the_next_server_knows_port_and_tokens(tmp_path, channel):
    channel.store(tmp_path)
    assert ReportChannel.of(tmp_path) == channel
    assert (tmp_path / "reports.json").stat().st_mode & 0o777 == 0o600
    (tmp_path / "reports.json").write_text("{}")
    assert ReportChannel.of(tmp_path).port == 0


def post(port, token, body, path=KUBEFLOW, method="POST"):
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, data, {"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def test_a_job_reports_by_kubeflows_protocol_for_itself_only(serving, headway, tmp_path):
    (tmp_path / "train.py").write_text(REPORTS)
    serving()
    submit(headway, "--name", "hf", "--", sys.executable, "train.py")
    submit(headway, "--name", "other", "--", "sleep", "600")
    wait_for(lambda: (found := listed(headway)["hf"])["step"] == 30 and found["total_steps"] == 120)
    assert listed(headway)["hf"]["value"] == 0.25
    run = find_server(tmp_path / "data").path
    channel = ReportChannel.of(run)
    folder = run / "jobs" / "hf" / "main-0"
    token = (folder / "report-token").read_text()
    assert (folder / "report-token").stat().st_mode & 0o777 == 0o600
    assert not (run / "jobs" / "other" / "main-0" / "reports.jsonl").exists()
    (folder / "ask").touch()
    status, answer = post(channel.port, token, {"reports": [{"step": 31}] * 100}, SDK)
    assert (status, answer) == (200, {"checkpoint": True})
    for path in ("/api/v1/jobs", "/healthz", "/v1/node"):  # it takes nothing else
        assert post(channel.port, token, {}, path)[0] == 404
    for body in (b"{", {}, {"trainerStatus": 1}, {"trainerStatus": {"metrics": [1]}}, []):
        assert post(channel.port, token, body)[0] == 400
    for body in ({"reports": [1]}, {"reports": [{}] * 1001}, b"[" * 100_000):
        assert post(channel.port, token, body, SDK)[0] == 400
    assert post(channel.port, token, b" " * (LARGEST_BODY + 1))[0] == 413
    assert post(channel.port, token, {}, method="PUT")[0] == 405
    assert post(channel.port, f"{token}0", {"reports": []}, SDK)[0] == 401
    gone = channel.token(Reporter(ReplicaId("gone/main-0"), "loss"))
    assert post(channel.port, gone, {"reports": []}, SDK)[0] == 404
    headway("cancel", "other")


def test_a_job_that_runs_reports_to_the_next_server(serving, headway, tmp_path):
    (tmp_path / "train.py").write_text(REPORTS.replace("urllib.request.urlopen(", "again("))
    text = (tmp_path / "train.py").read_text()
    again = "def again(request, timeout):\n    try: urllib.request.urlopen(request, timeout=5)\n"
    (tmp_path / "train.py").write_text(f"{again}    except OSError: pass\n{text}")
    first = serving()
    submit(headway, "--name", "hf", "--", sys.executable, "train.py")
    file = find_server(tmp_path / "data").path / "jobs" / "hf" / "main-0" / "reports.jsonl"
    wait_for(file.exists)
    first.kill()
    first.wait()
    size = file.stat().st_size
    serving()
    wait_for(lambda: file.stat().st_size > size + 200)
