"""The API of a real server: schemathesis sends it what its OpenAPI document allows, and what not.

`/events` is left out, because its answer does not end, and `/server/stop`, because it ends the
server; other tests test them.
HEADWAY_API_EXAMPLES: number of examples per operation.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

from forward import forwarded
from patience import wait_for

from headway.client import Client
from headway.runtime.run_status import find_server

EXAMPLES = os.environ.get("HEADWAY_API_EXAMPLES", "5")


def test_schemathesis_finds_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWAY_ENFORCEMENT", "nice")
    monkeypatch.setenv("HEADWAY_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    words = [sys.executable, "-m", "headway", "serve"]
    server = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    try:
        run = wait_for(lambda: find_server(tmp_path / "data"))
        wait_for(lambda: run.locked)
        with forwarded(run.path) as port:
            url = f"http://127.0.0.1:{port}/api/v1/openapi.json"
            config = Path(__file__).with_name("schemathesis.toml")
            command = ["--config-file", config, "run", url, "--checks", "all", "-n", EXAMPLES]
            command += ["--exclude-path", "/api/v1/events", "--no-color", "--continue-on-failure"]
            command += ["--exclude-path", "/api/v1/server/stop"]
            command += ["--phases", "coverage,fuzzing,stateful", "--request-timeout", "90"]
            beside = Path(sys.executable).with_name("schemathesis")
            ran = subprocess.run([beside, *command], capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout[-8000:] + ran.stderr[-2000:]
        with Client.of(tmp_path / "data") as client:
            assert client.server()["run"] == run.id
    finally:
        server.send_signal(signal.SIGTERM)
        told = server.communicate(timeout=60)[1]
    assert server.returncode == 0
    assert "Traceback" not in told
