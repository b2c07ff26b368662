"""Which processes Headway adopts: never one that the machine or Headway itself depends on.

`to_jobs` only looks at the processes. A test through the command would limit them if it failed.
"""

import os
import subprocess
from pathlib import Path

import pytest

from headway.backend import procfs
from headway.backend.local.adopt import to_jobs
from headway.errors import ConfigError


def kernel_thread():
    found = (int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit())
    return next((pid for pid in found if procfs.is_kernel_thread(pid)), None)


def test_an_ordinary_process_is_adopted_under_a_valid_name():
    child = subprocess.Popen(["sleep", "60"])
    try:
        (job,) = to_jobs([child.pid, child.pid])
        assert job.id == f"sleep-{child.pid}"
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize(
    ("pid", "says"),
    [
        pytest.param(1, "it is the init process", id="init"),
        pytest.param(os.getpid(), "it is this Headway process", id="itself"),
        pytest.param(os.getppid(), "this Headway process is a descendant of it", id="its parent"),
    ],
)
def test_what_headway_depends_on_is_refused(pid, says):
    with pytest.raises(ConfigError, match=f"process {pid} cannot be adopted: {says}") as caught:
        to_jobs([pid])
    assert caught.value.where == f"/proc/{pid}"


def test_all_ancestors_are_known():
    found = procfs.ancestors(os.getpid())
    assert found[:2] == [os.getpid(), os.getppid()]
    assert found[-1] == 1 or procfs.stat(found[-1]) is not None


def test_a_kernel_thread_is_refused():
    thread = kernel_thread()
    if thread is None:
        pytest.skip("no kernel thread in this pid namespace")
    with pytest.raises(ConfigError, match="it is a thread of the kernel"):
        to_jobs([thread])
