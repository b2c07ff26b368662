"""Adopted processes are never killed, and go back to where they came from."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from local import cgroups, start
from patience import end_of, wait_for

from headway.backend.local.enforcement import cgroupfs

WAITS = "import os, time\nos.fork()\ntime.sleep(600)"


@pytest.fixture
def home():
    """A cgroup of its own in every hierarchy in which Headway creates groups."""
    made = [f"{base}/home-{os.getpid()}" for base in {*cgroupfs.bases1().values()}]
    made += [f"{base}/home-{os.getpid()}" for base in cgroupfs.bases2()[:1]]
    for folder in made:
        Path(folder).mkdir()
    yield made
    for folder in made:
        cgroupfs.clear([folder])


@pytest.fixture
def child(home):
    process = subprocess.Popen([sys.executable, "-c", WAITS], start_new_session=True)
    wait_for(lambda: len(members(process)) == 2)
    for pid in members(process):
        for folder in home:
            cgroupfs.put(str(pid), folder)
    yield process
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def members(process):
    pids = (int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit())
    return [pid for pid in pids if _group(pid) == process.pid]


def _group(pid):
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


def release(running):
    running.send_signal(signal.SIGINT)
    assert end_of(running).returncode == 130


@pytest.mark.parametrize("enforcement", ["cgroup"], indirect=True)
def test_an_adopted_process_survives_although_its_home_group_has_vanished(
    tmp_path, enforcement, home, child
):
    del enforcement
    running = start("adopt", child.pid, data=tmp_path)
    wait_for(lambda: cgroups(child.pid).count("/headway/") and all(map(_empty, home)))
    for folder in home:
        Path(folder).rmdir()
    release(running)
    assert child.poll() is None
    assert len(members(child)) == 2
    assert "/headway/" not in cgroups(child.pid)


@pytest.mark.parametrize("enforcement", ["cgroup"], indirect=True)
def test_after_a_crash_an_adopted_process_returns_to_its_first_home(
    tmp_path, enforcement, home, child
):
    del enforcement, home
    before = cgroups(child.pid)
    for _ in range(2):
        crashing = start("adopt", child.pid, data=tmp_path)
        run = wait_for(lambda: newest_run(tmp_path))
        wait_for(lambda name=run: f"/headway/{name}/" in cgroups(child.pid))
        crashing.kill()
        crashing.wait()
        (tmp_path / "runs" / "latest").unlink()
    running = start("adopt", child.pid, data=tmp_path)
    run = wait_for(lambda: newest_run(tmp_path))
    wait_for(lambda: f"/headway/{run}/" in cgroups(child.pid))
    release(running)
    assert len(members(child)) == 2
    assert cgroups(child.pid) == before


@pytest.mark.parametrize("enforcement", ["cgroup"], indirect=True)
def test_what_an_adopted_process_leaves_running_is_released_too(tmp_path, enforcement, home, child):
    del enforcement, home
    (other,) = (pid for pid in members(child) if pid != child.pid)
    before = cgroups(other)
    running = start("adopt", child.pid, data=tmp_path)
    wait_for(lambda: "/headway/" in cgroups(other))
    os.kill(child.pid, signal.SIGKILL)
    assert end_of(running).returncode == 0
    assert cgroups(other) == before


def newest_run(data):
    link = data / "runs" / "latest"
    return link.readlink().name if link.is_symlink() else None


def _empty(folder):
    return not Path(folder, "cgroup.procs").read_text()
