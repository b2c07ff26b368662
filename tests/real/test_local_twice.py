"""No attempt runs twice, and no two attempts side by side: full disks, killed shells, reboots."""

import os
import signal
import subprocess
from pathlib import Path

import pytest
from local import headway, job, log, processes, result, script, start, workload
from patience import end_of, wait_for

from headway.backend.local import launcher

ALONE = """
    import fcntl, os, time
    folder = os.environ["HEADWAY_DIR"]
    held = open(folder + "/held", "w")
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        open(folder + "/twice", "w").close()
    print("attempt", os.environ["HEADWAY_ATTEMPT"], flush=True)
    while not os.path.exists(folder + "/enough"): time.sleep(0.02)
"""


@pytest.fixture
def small_disk(tmp_path):
    """A file system of one MiB."""
    there = tmp_path / "disk"
    there.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(there)], check=True)
    yield there
    subprocess.run(["umount", "--lazy", str(there)], check=True)


def test_the_exit_code_of_a_job_survives_a_full_disk(tmp_path, small_disk):
    fills = f"""
        import os
        with open("{tmp_path}/ran", "a") as file: file.write("x")
        with open("{small_disk}/filler", "wb", 0) as file:
            try:
                while True: file.write(bytes(4096))
            except OSError: pass
    """
    path = workload(tmp_path, job("fills", script(tmp_path, fills), backoffLimit=0))
    data = small_disk / "data"
    running = start("run", path, data=data)
    wait_for((tmp_path / "ran").exists)
    wait_for(lambda: processes(data) == [])
    (small_disk / "filler").unlink()
    try:
        running.wait(10)
    except subprocess.TimeoutExpired:
        running.kill()
        running.wait()
    done = headway("run", "--resume", "latest", data=data, check=False)
    assert done.returncode == 0 or "has ended" in done.stderr, done.stderr
    assert (tmp_path / "ran").read_text() == "x"
    assert result(data)["per_job"][0]["outcome"] == "succeeded"


def test_after_headway_and_a_shell_are_killed_no_two_attempts_run_side_by_side(
    tmp_path, enforcement
):
    del enforcement
    path = workload(tmp_path, job("alone", script(tmp_path, ALONE), backoffLimit=3))
    running = start("run", path, data=tmp_path)
    wait_for(lambda: "attempt 1" in log(tmp_path, "alone"))
    run = tmp_path / "runs" / "latest"
    shell = os.getsid(processes(tmp_path)[0])
    running.kill()
    running.wait()
    os.kill(shell, signal.SIGKILL)
    assert processes(tmp_path), "the training itself goes on"
    again = start("run", "--resume", "latest", data=tmp_path)
    wait_for(lambda: "attempt 2" in log(tmp_path, "alone"))
    folder = run / "jobs" / "alone" / "main-0"
    (folder / "enough").touch()
    assert end_of(again).returncode == 0
    assert not (folder / "twice").exists()
    assert processes(tmp_path) == []


def test_a_process_without_our_variables_does_not_run_beside_the_next_attempt(tmp_path):
    """It has cleared its environment, and there is no cgroup to find it in."""
    hides = ["env", "-i", f"HEADWAY_DIR={tmp_path}", "HEADWAY_ATTEMPT=?", *script(tmp_path, ALONE)]
    path = workload(tmp_path, job("alone", hides, backoffLimit=3))
    env = {"HEADWAY_ENFORCEMENT": "nice"}
    running = start("run", path, data=tmp_path, env=env)
    wait_for((tmp_path / "held").exists)
    records = tmp_path / "runs" / "latest" / "records" / "alone" / "main-0"
    running.kill()
    running.wait()
    os.kill(launcher.claim_of(records, 1).pid, signal.SIGKILL)
    again = start("run", "--resume", "latest", data=tmp_path, env=env)
    wait_for(lambda: launcher.claim_of(records, 2))
    (tmp_path / "enough").touch()
    assert end_of(again).returncode == 0
    assert not (tmp_path / "twice").exists()


@pytest.mark.parametrize("enforcement", ["cgroup"], indirect=True)
def test_a_reboot_is_not_a_failure_of_the_job(tmp_path, enforcement):
    del enforcement
    path = workload(tmp_path, job("alone", script(tmp_path, ALONE), backoffLimit=0))
    running = start("run", path, data=tmp_path)
    wait_for(lambda: "attempt 1" in log(tmp_path, "alone"))
    running.kill()
    running.wait()
    run = tmp_path / "runs" / "latest"
    for pid in processes(tmp_path):
        os.kill(pid, signal.SIGKILL)
    claim = run / "records" / "alone" / "main-0" / "claim.1"
    now = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert now in claim.read_text()
    claim.write_text(claim.read_text().replace(now, "00000000-0000-0000-0000-000000000000"))
    again = start("run", "--resume", "latest", data=tmp_path)
    wait_for(lambda: "attempt 2" in log(tmp_path, "alone"))
    (run / "jobs" / "alone" / "main-0" / "enough").touch()
    assert end_of(again).returncode == 0
    assert result(tmp_path)["per_job"][0]["outcome"] == "succeeded"
