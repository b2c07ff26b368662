"""The launcher checks each request itself: it is root, and the scheduler is not."""

import json
import os
import pwd
import signal
import socket
import subprocess
from pathlib import Path
from select import select

import pytest
from patience import wait_for

from headway.backend.local.channel import LENGTH, MOST, Channel, Ended
from headway.backend.local.delegation import Delegated
from headway.backend.local.privileged import Launcher, least_uid

SCHEDULER = 64990
START = {
    "do": "start", "run": "20260101-000000-abcdef", "job": "x", "replica": "main-0", "attempt": 1,
    "uid": 54321, "gid": 54321, "argv": ["true"], "env": {"A": "b"}, "where": "/", "cpus": None,
    "groups": [],
}  # fmt: skip


@pytest.fixture
def launcher(tmp_path):
    (tmp_path / "groups" / "own").mkdir(parents=True)
    (tmp_path / "groups" / "other").mkdir()
    runs = tmp_path / "runs"
    runs.mkdir()
    groups = Delegated((f"{tmp_path}/groups/own",), ())
    return Launcher(runs, tmp_path / "records", SCHEDULER, SCHEDULER, groups, least=1000)


def refused(launcher, message):
    answer, descriptors = launcher.handle(message)
    assert descriptors == []
    return answer.get("refused", "")


SYSTEM = next((a for a in pwd.getpwall() if 0 < a.pw_uid < 1000 and a.pw_name != "sync"), None)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"uid": 0}, "no job runs as root"),
        ({"uid": 0, "gid": 54321}, "no job runs as root"),
        ({"uid": SYSTEM and SYSTEM.pw_uid}, "its uid is below 1000"),
        ({"uid": SCHEDULER, "gid": SCHEDULER}, "the user of the scheduler"),
        ({"uid": -1}, "not a user"),
        ({"uid": 2**32 - 1}, "not a user"),  # setuid leaves the uid as it is
        ({"uid": True}, "not a user"),
        ({"uid": "54321"}, "not a user"),
        ({"gid": 0}, "is not in the group 0"),
        ({"gid": SCHEDULER}, "in the group of the scheduler"),
        ({"run": "../../etc"}, "not the name of a run"),
        ({"run": "latest"}, "not the name of a run"),
        ({"job": "../x"}, "not the name of a job"),
        ({"job": ".."}, "not the name of a job"),
        ({"job": "x\n"}, "not the name of a job"),
        ({"replica": "main-0/checkpoint"}, "not the name of a replica"),
        ({"attempt": 0}, "not an attempt"),
        ({"attempt": "1/../../x"}, "not an attempt"),
        ({"argv": []}, "not a command"),
        ({"argv": ["a\0b"]}, "without NUL"),
        ({"argv": [1]}, "without NUL"),
        ({"argv": None}, "not a valid request"),
        ({"env": {"A=B": "x"}}, "not a command"),
        ({"env": []}, "not a valid request"),
        ({"where": "relative"}, "not an absolute path"),
        ({"groups": ["/sys/fs/cgroup"]}, "not a group of the launcher"),
        ({"do": "exec"}, "not a valid request"),
        ({"do": None}, "not a valid request"),
    ],
)
def test_what_the_scheduler_must_not_ask_for_is_refused(launcher, change, why):
    assert why in refused(launcher, {**START, **change})
    assert not launcher.records.exists()


def test_a_system_user_is_accepted_if_the_administrator_allows_it(launcher):
    assert SYSTEM is not None
    change = {"uid": SYSTEM.pw_uid, "gid": SYSTEM.pw_gid, "do": "kill"}
    launcher.allowed = frozenset({SYSTEM.pw_uid})
    assert refused(launcher, {**START, **change}) == ""


@pytest.mark.parametrize("inside", ["own/../other", "other", "own", "own/missing", "own/a/../a"])
def test_only_processes_in_the_launcher_s_own_groups_are_signalled(launcher, tmp_path, inside):
    victim = subprocess.Popen(["sleep", "60"])
    for folder in ("own", "own/a", "other"):
        (tmp_path / "groups" / folder).mkdir(exist_ok=True)
        (tmp_path / "groups" / folder / "cgroup.procs").write_text(str(victim.pid))
    try:
        message = {
            "do": "signal", "signal": 9, "group": f"{tmp_path}/groups/{inside}", "shell": 0,
        }  # fmt: skip
        assert "not a group of the launcher" in refused(launcher, message)
        own = {**message, "group": f"{tmp_path}/groups/own/a"}
        assert refused(launcher, own) == ""
        assert victim.wait(60) == -signal.SIGKILL  # of the last one
    finally:
        victim.kill()
        victim.wait()


def test_a_child_that_has_not_entered_its_group_is_signalled(launcher, tmp_path):
    (tmp_path / "groups" / "own" / "a").mkdir()
    group = f"{tmp_path}/groups/own/a"
    with subprocess.Popen(["sleep", "60"], process_group=0) as child:
        message = {"do": "signal", "signal": 15, "group": group, "shell": child.pid}
        assert refused(launcher, message) == ""
        assert child.wait(60) == -signal.SIGTERM
    another = ["sh", "-c", "setsid sleep 60 >/dev/null & echo $!"]
    pid = int(subprocess.run(another, stdout=-1, check=True).stdout)
    wait_for(lambda: os.getpgid(pid) == pid)
    process = os.pidfd_open(pid)
    try:
        assert refused(launcher, {**message, "shell": pid}) == ""
        assert select([process], [], [], 0.2) == ([], [], [])  # it has not ended
    finally:
        signal.pidfd_send_signal(process, signal.SIGKILL)
        os.close(process)


@pytest.mark.parametrize("number", [0, signal.SIGUSR1, "9", None, 64])
def test_only_the_signals_of_a_platform_are_sent(launcher, tmp_path, number):
    (tmp_path / "groups" / "own" / "a").mkdir()
    message = {"do": "signal", "signal": number, "group": f"{tmp_path}/groups/own/a"}
    assert "signal" in refused(launcher, message)


def test_processes_of_others_that_bear_the_mark_of_an_attempt_are_left_alone(launcher):
    """Any user can start a process with these variables."""
    folder = launcher.runs / START["run"] / "jobs" / "x" / "main-0"
    env = {**os.environ, "HEADWAY_DIR": str(folder), "HEADWAY_ATTEMPT": "1"}
    other = subprocess.Popen(["sleep", "60"], env=env)
    try:
        answer, _ = launcher.handle({**START, "do": "kill"})
        assert answer == {"left": False}
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


NAMES = ["run", "jobs", "job", "replica", "checkpoint"]
PARTS = [START["run"], "jobs", "x", "main-0", "checkpoint"]


@pytest.mark.parametrize("link", NAMES)
def test_a_link_to_a_folder_of_the_user_does_not_give_it_to_the_scheduler(launcher, tmp_path, link):
    if os.geteuid():
        pytest.skip("only root gives folders away")
    path = launcher.runs
    os.chown(path, SCHEDULER, SCHEDULER)
    there = []
    for name, part in zip(NAMES, PARTS, strict=True):
        own = path / part
        path = tmp_path / "home" if name == link else own
        path.mkdir()
        if name == link:
            own.symlink_to(path)
        if there or name == link:
            there.append(path)
        os.chown(path, SCHEDULER if NAMES.index(name) < 3 else START["uid"], START["gid"])
    before = [(x.stat().st_uid, x.stat().st_gid, x.stat().st_mode) for x in there]
    answer, _ = launcher.handle(START)
    assert "errno" in answer
    assert [(x.stat().st_uid, x.stat().st_gid, x.stat().st_mode) for x in there] == before
    assert not launcher.records.exists()


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_of_another_user_is_not_given_away(launcher, name):
    if os.geteuid():
        pytest.skip("only root gives folders away")
    path = launcher.runs
    os.chown(path, SCHEDULER, SCHEDULER)
    for each, part in zip(NAMES, PARTS, strict=True):
        path /= part
        path.mkdir()
        os.chown(path, 54399 if each == name else SCHEDULER, SCHEDULER)
    answer, _ = launcher.handle(START)
    assert "belong" in answer["refused"]
    assert not launcher.records.exists()


def test_the_first_uid_of_users_is_that_of_the_machine(tmp_path):
    (tmp_path / "login.defs").write_text("# UID_MIN 7\nUID_MAX 9\nUID_MIN\t\t 5000\n")
    assert least_uid(tmp_path / "login.defs") == 5000
    assert least_uid(tmp_path / "missing") == 1000


def test_messages_and_descriptors_arrive_whole_and_damaged_ones_are_errors():
    ours, theirs = socket.socketpair()
    near, far = Channel(ours), Channel(theirs)
    with Path("/dev/null").open("rb") as file:
        near.send({"a": "ü" * 5000}, [file.fileno()])
    message, [found] = far.receive()
    assert message == {"a": "ü" * 5000}
    assert Path(f"/proc/self/fd/{found}").resolve() == Path("/dev/null")
    os.close(found)
    ours.sendall(LENGTH.pack(MOST + 1))
    with pytest.raises(ValueError, match="too long"):
        far.receive()
    text = json.dumps([1]).encode()
    ours.sendall(LENGTH.pack(len(text)) + text)
    with pytest.raises(ValueError, match="an object"):
        far.receive()
    ours.sendall(LENGTH.pack(10) + b"{")
    ours.close()
    with pytest.raises(Ended):
        far.receive()
    with pytest.raises(Ended):
        far.receive()
    with pytest.raises(ValueError, match="too long"):
        far.send({"a": "x" * (MOST + 1)})
    far.close()
