"""The server as a service of systemd, as far as it can be tested without systemd."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from patience import wait_for

from headway.client import Client
from headway.runtime.service_manager import ServiceManager

UNIT = Path(__file__).parents[2] / "deploy" / "systemd" / "headway.service"


@pytest.fixture
def manager(tmp_path):
    """The socket of a service manager; `heard` has all that it was told."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    made.bind(str(tmp_path / "notify"))
    made.settimeout(60.0)
    yield made
    made.close()


def test_a_server_notifies_systemd_when_ready_alive_and_stopping(
    serving, manager, tmp_path, monkeypatch
):
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    monkeypatch.setenv("WATCHDOG_USEC", "500000")
    child = serving()
    assert manager.recv(100) == b"READY=1"
    with Client.of() as client:
        assert client.server()["run"], "it answers"
        assert [manager.recv(100) for _ in range(3)] == [b"WATCHDOG=1"] * 3
        command = [sys.executable, "-c", "import os; print(sorted(os.environ))"]
        spec = {"tasks": [{"command": command}]}
        client.submit([{"name": "x", "spec": spec}])
        lines = wait_for(lambda: client.logs("x"))
        assert "NOTIFY_SOCKET" not in lines[0], "a job does not speak for the server"
        assert "WATCHDOG_USEC" not in lines[0]
    child.send_signal(signal.SIGTERM)
    wait_for(lambda: manager.recv(100) == b"STOPPING=1")


def test_a_server_that_hangs_sends_no_watchdog_notification(
    serving, manager, tmp_path, monkeypatch
):
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    monkeypatch.setenv("WATCHDOG_USEC", "200000")
    child = serving()
    assert manager.recv(100) == b"READY=1"
    child.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED)
    manager.settimeout(1.0)
    with suppress(TimeoutError):  # what it had told before
        while manager.recv(100):
            pass
    with pytest.raises(TimeoutError):
        manager.recv(100)
    child.send_signal(signal.SIGCONT)
    manager.settimeout(60.0)
    assert manager.recv(100) == b"WATCHDOG=1"


def test_an_abstract_socket_is_notified_and_a_missing_one_is_ignored():
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as made:
        name = f"headway-test-{os.getpid()}"
        made.bind(f"\0{name}")
        made.settimeout(60.0)
        ServiceManager({"NOTIFY_SOCKET": f"@{name}"}).ready()
        assert made.recv(100) == b"READY=1"
    ServiceManager({"NOTIFY_SOCKET": "/nowhere"}).ready()
    ServiceManager({}).stopping()


def test_a_watchdog_of_another_process_is_left_alone(manager, tmp_path):
    variables = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "10"}
    for more in ({"WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "soon"}):
        ServiceManager({**variables, **more}).at_work()
    ServiceManager({**variables, "WATCHDOG_PID": str(os.getpid())}).at_work()
    assert manager.recv(100) == b"WATCHDOG=1"
    manager.setblocking(False)
    with pytest.raises(BlockingIOError):
        manager.recv(100)


def test_the_unit_lets_jobs_outlive_the_server():
    lines = UNIT.read_text().splitlines()
    assert {"Type=notify", "KillMode=process", "WatchdogSec=60"} <= set(lines)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is missing")
def test_systemd_accepts_the_unit(tmp_path):
    path = tmp_path / "headway.service"
    path.write_text(UNIT.read_text().replace("%h/.local/bin/headway", "/bin/true"))
    words = ["systemd-analyze", "verify", "--man=no", str(path)]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (ran.returncode, [x for x in ran.stderr.splitlines() if "headway.service" in x]) == (
        0,
        [],
    )
