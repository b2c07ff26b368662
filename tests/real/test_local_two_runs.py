"""Two runs at the same time divide the CPUs and the memory of the machine."""

import os
import signal
from pathlib import Path

import pytest
from local import headway, job, log, script, start, workload
from patience import end_of, wait_for

SAYS = """
    import os, time
    print("on", *sorted(os.sched_getaffinity(0)), flush=True)
    while not os.path.exists(os.environ["HEADWAY_DIR"] + "/enough"): time.sleep(0.02)
"""


@pytest.fixture
def two(tmp_path):
    """Two data folders, as of two users."""
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    return folders


def begin(folder, **task):
    made = job("x", script(folder, SAYS))
    made["spec"]["tasks"][0].update(task)
    more = {} if task else {"nodes": [{"name": "one", "cpu": 1}]}
    return start("run", workload(folder, made, **more), data=folder)


def end(running):
    running.send_signal(signal.SIGINT)
    assert end_of(running).returncode == 130


@pytest.mark.alone
@pytest.mark.parametrize("enforcement", ["nice"], indirect=True)
def test_nodes_of_two_runs_lie_on_different_cpus(two, enforcement):
    del enforcement
    assert len(os.sched_getaffinity(0)) > 1, "this test needs two CPUs"
    wait_for(lambda: "@headway-cpu-" not in Path("/proc/net/unix").read_text())  # claims of others
    runs, cpus = [], []
    for folder in two:
        runs.append(begin(folder))
        wait_for(lambda folder=folder: "on" in log(folder, "x"))
        cpus.append(log(folder, "x"))
    for running in runs:
        end(running)
    assert cpus[0] != cpus[1]


def test_memory_that_one_run_has_promised_is_not_promised_by_another(two):
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    most = {"resources": {"requests": {"memory": int(0.6 * total)}}}
    first = begin(two[0], **most)
    wait_for(lambda: "on" in log(two[0], "x"))
    second = begin(two[1], **most)
    wait_for(
        lambda: "not enough memory" in headway("explain", "x", data=two[1], check=False).stdout
    )
    assert log(two[1], "x") == ""
    end(first)
    wait_for(lambda: "on" in log(two[1], "x"))
    end(second)
