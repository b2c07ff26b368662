"""Real processes on this machine, under cgroups and under pacing."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest
from live_hands import LiveHands
from local import (
    cgroups,
    groups,
    headway,
    job,
    log,
    note,
    processes,
    result,
    script,
    start,
    state,
    workload,
)
from patience import end_of, wait_for

from contract import BackendContract
from headway import failpoint
from headway.backend import procfs
from headway.backend.clock import Clock
from headway.backend.cpu_partition import Cut
from headway.backend.local import launcher
from headway.backend.local.enforcement.select import choose
from headway.backend.local.platform import LocalPlatform
from headway.core.model.decision import Place
from headway.core.model.units import ReplicaId
from headway.spec.runnable import Command
from making import node

TRAINS = """
import os, time, headway.sdk as sdk
run = sdk.attach()
step = int((run.latest.folder / "step").read_text()) if run.latest else 0
while not os.path.exists(os.environ["HEADWAY_DIR"] + "/enough"):
    step += 1
    time.sleep(0.01)
    run.report(step, loss=1 / step)
    if run.should_checkpoint():
        run.save(step, lambda folder: (folder / "step").write_text(str(step)))
"""


class LocalHands(LiveHands):
    commands: ClassVar = {"worker": Command(argv=(sys.executable, "-c", TRAINS), where="/")}

    def __init__(self, folder, jobs=None):
        limits = choose(f"contract-{os.getpid()}-{folder.name}")
        cuts = [Cut(node("a", cpu=1.0)), Cut(node("b", cpu=1.0))]
        jobs, clock = {} if jobs is None else jobs, Clock()
        super().__init__(LocalPlatform(folder, cuts, jobs, limits, clock), clock, folder, jobs)

    def under_way(self):
        """Also until each replica has reported."""
        watched = list(self.backend.monitor.replicas.values())
        for w in watched:
            w.reader.listen()
        return super().under_way() or not all(w.reader.spoke for w in watched)

    def finish(self, replica):
        (self.platform.processes[replica].folder / "enough").touch()

    def share(self, replica):
        return self.platform.processes[replica].group.share()

    def step(self, name):
        here = [w for w in self.backend.monitor.replicas.values() if w.id.job == name]
        for w in here:
            w.reader.listen()
        return max(w.reader.step for w in here)

    def left_on_platform(self):
        return processes(self.folder)

    def close(self):
        self.backend.cancel("the test is over", force=True)
        self.backend.close()


@pytest.mark.parametrize("enforcement", ["cgroup", "nice"], indirect=True)
class TestLocal(BackendContract):
    @pytest.fixture
    def platform(self, tmp_path, enforcement):
        made = LocalHands(tmp_path)
        assert made.platform.limits.name == enforcement
        yield made
        made.close()
        assert processes(tmp_path) == []

    def test_a_restart_finds_everything(self, platform, seen):
        platform.submit("x")
        seen.start("x", "a")
        pid = platform.platform.processes["x/worker-0"].pid
        again = LocalHands(platform.folder, platform.jobs)
        found = again.platform.processes["x/worker-0"]
        assert (found.pid, found.node, again.phase("x")) == (pid, "a", "running")
        assert again.record("x").failures == 0
        found.reap()

    @pytest.mark.parametrize(
        "point", ["shim.claimed=delay:30", "shim.begin=stop", "shim.enter=delay:30"]
    )
    def test_a_replica_that_is_stopped_before_it_has_begun_never_begins_or_ends_soon(
        self, platform, seen, point
    ):
        replica = ReplicaId.of("x", "worker", 0)
        platform.submit("x")
        seen.look()
        failpoint.arm(point)
        try:
            seen.act(Place(job="x", where=((replica, "a"),)))
            platform.until(lambda: replica in platform.platform.processes)
        finally:
            failpoint.arm("")
        records = platform.platform.store.records(replica)
        wait_for(lambda: launcher.claim_of(records, 1))
        if "stop" in point:
            self.cancel_while_stopped(platform, platform.platform.processes[replica].pid)
        else:
            platform.backend.cancel("not wanted any more")
        platform.until(lambda: platform.phase("x") == "cancelled")
        assert launcher.exit_code(records, 1) == 143  # else it was killed after its grace period
        assert log(platform.folder, "x") == "" or "stop" in point

    @staticmethod
    def cancel_while_stopped(platform, shell):
        """The shell is signalled after it has looked whether it was, and before it forks."""
        status, pending = Path(f"/proc/{shell}/status"), f"{1 << signal.SIGTERM - 1:016x}"
        wait_for(lambda: "T (stopped)" in status.read_text())
        platform.backend.cancel("not wanted any more")
        platform.until(lambda: "T (stopped)" not in (now := status.read_text()) or pending in now)
        os.killpg(shell, signal.SIGCONT)


@pytest.mark.parametrize("enforcement", ["cgroup", "nice"], indirect=True)
def test_jobs_run_to_their_end_and_leave_nothing_behind(tmp_path, enforcement):
    jobs = [job(f"j{i}", script(tmp_path, "trains"), at=0.3 * i) for i in range(3)]
    done = headway("run", workload(tmp_path, *jobs), "--json", data=tmp_path)
    (found,) = json.loads(done.stdout)
    assert (found["backend"], found["enforcement"]) == ("local", enforcement)
    assert [(j["outcome"], j["steps"]) for j in found["per_job"]] == [("succeeded", 20)] * 3
    assert result(tmp_path) == found
    assert (tmp_path / "runs" / "latest" / "report.html").stat().st_size > 5000
    assert processes(tmp_path) == []
    assert groups(tmp_path) == []


SPINS = """
    import time
    for step in range(1, 201):
        end = time.process_time() + 0.02
        while time.process_time() < end: pass
        print(f"step {step}/200 loss {1 / step}", flush=True)
"""


def test_a_busy_process_outside_headway_is_noticed(tmp_path, enforcement):
    del enforcement
    jobs = [job(name, script(tmp_path, SPINS)) for name in "xy"]
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
        try:
            done = headway("run", workload(tmp_path, *jobs), "--json", data=tmp_path)
        finally:
            other.kill()
    (found,) = json.loads(done.stdout)
    assert 0 < found["foreign_cores"] <= found["cores"] == len(os.sched_getaffinity(0))
    told = headway("explain", "x", data=tmp_path).stdout
    loads = re.findall(rf"([\d.]+) of {found['cores']:g} cores used by others", told)
    assert max(map(float, loads)) > 0.3
    page = (tmp_path / "runs" / "latest" / "report.html").read_text()
    assert "cores used by others" in page


BAD = {
    "no such command": (["no-such-command-at-all"], "command not found"),
    "exits at once": ("raise SystemExit(3)", "exited with code 3"),
    "is killed": ("import os; os.kill(os.getpid(), 9)", "SIGKILL"),
    "no such folder": ({"workingDir": "no-such-folder"}, "exited with code 126"),
}
STRANGE = {
    "prints garbage": r"""
        import sys
        for i in range(2000): sys.stdout.buffer.write(bytes(range(256)) + b"loss=\xff\n")
    """,
    "reports nan": """
        import headway
        run = headway.attach()
        for i in range(50): run.report(i, loss=float("nan"))
        print("loss: nan", "loss: inf")
    """,
    "forks a hundred children": """
        import os, time
        for i in range(100):
            if os.fork() == 0:
                time.sleep(600)
                os._exit(0)
    """,
    "leaves a daemon behind": """
        import os, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0: time.sleep(600)
            os._exit(0)
        time.sleep(0.2)
    """,
}


@pytest.mark.parametrize("enforcement", ["cgroup"], indirect=True)
def test_a_bad_job_fails_with_a_clear_reason_and_the_others_are_untouched(tmp_path, enforcement):
    del enforcement
    jobs = [job("good", script(tmp_path, "trains"))]
    for i, (what, _) in enumerate(BAD.values()):
        command = what if isinstance(what, list) else script(tmp_path, str(what))
        made = job(f"bad-{i}", command, backoffLimit=0)
        if isinstance(what, dict):
            made["spec"]["tasks"][0].update(what)
        jobs.append(made)
    for i, text in enumerate(STRANGE.values()):
        jobs.append(job(f"strange-{i}", script(tmp_path, text)))
    done = headway("run", workload(tmp_path, *jobs), "--json", data=tmp_path, check=False)
    assert done.returncode == 1
    (found,) = json.loads(done.stdout)
    outcome = {j["name"]: j["outcome"] for j in found["per_job"]}
    assert outcome["good"] == "succeeded"
    for i, (_, reason) in enumerate(BAD.values()):
        assert outcome[f"bad-{i}"] == "failed"
        assert reason in found["reasons"][f"bad-{i}"]
    assert {outcome[f"strange-{i}"] for i in range(len(STRANGE))} == {"succeeded"}
    assert processes(tmp_path) == []


def test_a_failed_job_is_tried_again_as_often_as_it_may_be(tmp_path):
    flaky = """
        import os, pathlib
        tried = pathlib.Path(os.environ["HEADWAY_DIR"]) / "tried"
        tried.write_text(tried.read_text() + "x" if tried.exists() else "x")
        raise SystemExit(len(tried.read_text()) < 3)
    """
    path = workload(tmp_path, job("flaky", script(tmp_path, flaky), backoffLimit=3))
    headway("run", path, data=tmp_path)
    found = result(tmp_path)["per_job"][0]
    assert found["outcome"] == "succeeded"


def test_a_job_that_ignores_sigterm_is_killed_after_its_grace_period(tmp_path, enforcement):
    del enforcement
    stubborn = """
        import signal, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("ready", flush=True)
        time.sleep(600)
    """
    spec = {"checkpoint": {"graceSeconds": 1}}
    path = workload(tmp_path, job("stubborn", script(tmp_path, stubborn), **spec))
    running = start("run", path, data=tmp_path)
    wait_for(lambda: "ready" in log(tmp_path, "stubborn"))
    running.send_signal(signal.SIGINT)
    assert end_of(running).returncode == 130
    assert result(tmp_path)["per_job"][0]["outcome"] == "cancelled"
    assert processes(tmp_path) == []


def test_a_gigabyte_of_output_is_cut_and_its_last_line_is_parsed(tmp_path):
    flood = """
        import os, sys, time
        line = b"x" * 1023 + b"\\n"
        for i in range(1024):
            sys.stdout.buffer.write(line * 1024)
        sys.stdout.buffer.flush()
        print("loss: 0.5", flush=True)
        while not os.path.exists(os.environ["HEADWAY_DIR"] + "/heard"): time.sleep(0.02)
    """
    running = start("run", workload(tmp_path, job("flood", script(tmp_path, flood))), data=tmp_path)
    usage = tmp_path / "runs" / "latest" / "usage.jsonl"
    wait_for(lambda: usage.exists() and '"value": 0.5' in usage.read_text())
    (there,) = tmp_path.glob("runs/2*/jobs/flood/main-0/out.log")
    (there.parent / "heard").touch()
    assert end_of(running).returncode == 0
    assert there.stat().st_size < 64 * 2**20
    assert b"bytes were cut" in there.read_bytes()


@pytest.mark.parametrize("enforcement", ["cgroup"], indirect=True)
def test_a_job_past_its_memory_is_killed_alone_and_says_so(tmp_path, enforcement):
    del enforcement
    hungry = "x = []\nwhile True: x.append(bytearray(2**20))"
    limits = {"resources": {"limits": {"memory": "64Mi"}}}
    made = job("hungry", script(tmp_path, hungry), backoffLimit=0)
    made["spec"]["tasks"][0].update(limits)
    good = job("good", script(tmp_path, "trains"))
    headway("run", workload(tmp_path, made, good), data=tmp_path, check=False)
    found = result(tmp_path)
    assert [j["outcome"] for j in found["per_job"]] == ["failed", "succeeded"]
    assert "memory" in found["reasons"]["hungry"]


def test_a_job_waits_for_memory_that_others_were_promised(tmp_path):
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    most = {"resources": {"requests": {"memory": int(0.6 * total)}}}
    jobs = [job(f"big-{i}", script(tmp_path, "trains")) for i in range(2)]
    for each in jobs:
        each["spec"]["tasks"][0].update(most)
    headway("run", workload(tmp_path, *jobs), data=tmp_path, check=False)
    first, second = result(tmp_path)["per_job"]
    assert second["started_s"] >= first["finished_s"] - 0.2


@pytest.mark.parametrize("enforcement", ["cgroup", "nice"], indirect=True)
def test_jobs_outlive_a_killed_headway_and_are_found_again(tmp_path, enforcement):
    del enforcement
    slow = """
        import time, headway
        run = headway.attach(total_steps=30)
        for step in range(1, 31):
            run.report(step, loss=1 / step)
            print("step", step, flush=True)
            time.sleep(0.1)
    """
    jobs = [job("now", script(tmp_path, slow)), job("later", script(tmp_path, "trains"), at=2.5)]
    running = start("run", workload(tmp_path, *jobs), data=tmp_path)
    wait_for(lambda: "step 5" in log(tmp_path, "now"))
    running.kill()
    running.wait()
    steps = log(tmp_path, "now").count("step")
    wait_for(lambda: log(tmp_path, "now").count("step") > steps)  # it goes on by itself
    headway("run", "--resume", "latest", data=tmp_path)
    found = {j["name"]: j for j in result(tmp_path)["per_job"]}
    assert [j["outcome"] for j in found.values()] == ["succeeded", "succeeded"]
    assert log(tmp_path, "now").splitlines() == [f"step {i}" for i in range(1, 31)]
    assert found["later"]["started_s"] >= 2.5
    assert processes(tmp_path) == []
    assert groups(tmp_path) == []


def test_a_gang_starts_whole_and_ends_with_its_chief(tmp_path):
    says = """
        import os, time
        print(*(os.environ[k] for k in ("RANK", "WORLD_SIZE", "MASTER_ADDR")), flush=True)
        if os.environ["HEADWAY_TASK"] == "ps": time.sleep(600)
        time.sleep(0.3)
    """
    command = script(tmp_path, says)
    tasks = [
        {"name": "worker", "replicas": 2, "command": command},
        {"name": "ps", "command": command},
    ]
    path = workload(
        tmp_path, {"name": "g", "spec": {"tasks": tasks, "checkpoint": {"graceSeconds": 1}}}
    )
    headway("run", path, data=tmp_path)
    logs = {p.parent.name: p.read_text() for p in tmp_path.glob("runs/2*/jobs/g/*/out.log")}
    assert logs["worker-1"].startswith("2 3 127.0.0.1\n")
    assert set(logs) == {"worker-0", "worker-1", "ps-0"}
    assert processes(tmp_path) == []


@pytest.mark.parametrize("enforcement", ["cgroup"], indirect=True)
def test_an_adopted_tree_is_held_and_let_go_unharmed(tmp_path, enforcement):
    del enforcement
    forks = "import os, time\nos.fork()\ntime.sleep(600)"
    child = subprocess.Popen([sys.executable, "-c", forks], start_new_session=True)
    before = cgroups(child.pid)
    running = start("adopt", child.pid, data=tmp_path)
    try:
        wait_for(lambda: "/headway/" in cgroups(child.pid))
        running.send_signal(signal.SIGINT)
        assert end_of(running).returncode == 130
        assert child.poll() is None
        assert cgroups(child.pid) == before
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


@pytest.mark.parametrize("enforcement", ["nice"], indirect=True)
def test_a_stopped_process_continues_when_headway_or_its_pacer_dies(tmp_path, enforcement):
    del enforcement
    spin = "while True: pass"
    jobs = [job(f"j{i}", script(tmp_path, spin)) for i in range(2)]
    path = workload(tmp_path, *jobs, nodes=[{"name": "tenth", "cpu": 0.1}])
    running = start("run", path, data=tmp_path)
    try:
        wait_for(lambda: pacers(running.pid))
        found = pacers(running.pid)
        os.kill(found[0], signal.SIGKILL)
        wait_for(lambda: pacers(running.pid) not in ([], found))  # it is started again
        running.kill()
        running.wait()
        wait_for(lambda: {state(p) for p in processes(tmp_path)} <= {"R", "S"})
    finally:
        running.kill()
        for pid in processes(tmp_path):
            os.kill(pid, signal.SIGKILL)


def pacers(pid):
    """Those of this Headway that have not been killed."""
    ours = [p for p in procfs.descendants(pid) if state(p) != "Z"]
    return [p for p in ours if b"enforcement.pacer" in words(p)]


def words(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_two_headways_do_not_look_after_one_run(tmp_path):
    running = start("run", workload(tmp_path, job("w", script(tmp_path, "waits"))), data=tmp_path)
    wait_for((tmp_path / "runs" / "latest" / "records" / "w" / "main-0" / "claim.1").exists)
    done = headway("run", "--resume", "latest", data=tmp_path, check=False)
    assert done.returncode == 2
    assert "another Headway" in done.stderr
    running.send_signal(signal.SIGINT)
    assert end_of(running).returncode == 130


def test_after_a_crash_at_any_write_every_job_ends_once(tmp_path, enforcement):
    """HEADWAY_CRASH_AFTER_WRITES = 1, 14, 27, … until a run completes undisturbed. The evidence
    run tries every one of them.
    """
    del enforcement
    stride = int(os.environ.get("HEADWAY_CRASH_STRIDE", "13"))
    crashes = 0
    for n in range(1, 1000, stride):
        data = tmp_path / str(n)
        data.mkdir()
        if not crashed(data, n):
            break
        crashes += 1
    note("crash points", crashes)
    assert crashes * stride >= 30


def crashed(data, n):
    """One run with a crash at its n-th write, taken up again; did it come to the crash?"""
    once = """
        import os, pathlib, time
        with open(pathlib.Path(os.environ["HEADWAY_DIR"]) / "ran", "a") as file: file.write("x")
        time.sleep(0.1)
    """
    jobs = [job(f"j{i}", script(data, once), at=0.1 * i) for i in range(3)]
    path = workload(data, *jobs)
    env = {"HEADWAY_CRASH_AFTER_WRITES": str(n)}
    done = headway("run", path, data=data, env=env, check=False)
    if done.returncode == -signal.SIGKILL:
        again = headway("run", "--resume", "latest", data=data, check=False)
        if again.returncode and "has ended" not in again.stderr:
            # It died before there was a run to resume.
            assert "no run is called" in again.stderr or "workload.yaml" in again.stderr, n
            assert processes(data) == [] == groups(data)
            return True
    ran = {p.parent.parent.name: p.read_text() for p in data.glob("runs/2*/jobs/*/*/ran")}
    assert ran == {"j0": "x", "j1": "x", "j2": "x"}, n
    assert [j["outcome"] for j in result(data)["per_job"]] == ["succeeded"] * 3, n
    assert processes(data) == [], n
    assert groups(data) == [], n
    return done.returncode == -signal.SIGKILL
