"""The API of a real server: schemathesis sends it what its OpenAPI document allows, and what not,
by the Unix socket, and over TCP with a token and without one.

`/events` is left out, because its answer does not end, and `/server/stop`, because it ends the
server; other tests test them.
HEADWAY_API_EXAMPLES: number of examples per operation.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from forward import forwarded
from patience import wait_for

from headway.client import Client
from headway.runtime.run_status import find_server
from headway.server.openapi import document
from headway.server.tokens import Tokens

EXAMPLES = os.environ.get("HEADWAY_API_EXAMPLES", "5")


@pytest.fixture
def server(tmp_path, monkeypatch):
    """Yield its run, and its port of TCP."""
    monkeypatch.setenv("HEADWAY_ENFORCEMENT", "nice")
    monkeypatch.setenv("HEADWAY_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    words = [sys.executable, "-m", "headway", "serve", "--listen", "127.0.0.1:0"]
    child = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    try:
        port = int(child.stderr.readline().rpartition(":")[2])
        run = wait_for(lambda: find_server(tmp_path / "data"))
        wait_for(lambda: run.locked)
        yield run, port
        with Client.of(tmp_path / "data") as client:
            assert client.server()["run"] == run.id
    finally:
        child.send_signal(signal.SIGTERM)
        told = child.communicate(timeout=60)[1]
    assert child.returncode == 0
    assert "Traceback" not in told


def schemathesis(document, port, *options):
    config = Path(__file__).with_name("schemathesis.toml")
    command = ["--config-file", config, "run", document, "--url", f"http://127.0.0.1:{port}"]
    command += ["--checks", "all", "-n", EXAMPLES, "--no-color", "--continue-on-failure"]
    command += ["--exclude-path", "/api/v1/events", "--exclude-path", "/api/v1/server/stop"]
    command += ["--phases", "coverage,fuzzing,stateful", "--request-timeout", "90", *options]
    beside = Path(sys.executable).with_name("schemathesis")
    ran = subprocess.run([beside, *command], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout[-8000:] + ran.stderr[-2000:]


def written(path, *, tokens):
    path.write_text(json.dumps(document(tokens=tokens)))
    return path


@pytest.mark.long
def test_schemathesis_finds_nothing(server, tmp_path):
    with forwarded(server[0].path) as port:
        schemathesis(written(tmp_path / "openapi.json", tokens=False), port)


def test_schemathesis_finds_nothing_over_tcp_with_a_token(server, tmp_path):
    token = Tokens(tmp_path / "data").create("tester")
    made = written(tmp_path / "openapi.json", tokens=True)
    schemathesis(made, server[1], "--header", f"Authorization: Bearer {token}")


def test_schemathesis_gets_nothing_over_tcp_without_a_token(server, tmp_path):
    found = document(tokens=True)
    refused = {"401": found["paths"]["/api/v1/jobs"]["get"]["responses"]["401"]}
    for path, methods in found["paths"].items():
        for about in (methods[name] for name in ("get", "post") if name in methods):
            about["responses"] = about["responses"] if path.endswith("z") else refused
    (tmp_path / "openapi.json").write_text(json.dumps(found))
    schemathesis(
        tmp_path / "openapi.json", server[1], "--exclude-checks", "positive_data_acceptance"
    )
