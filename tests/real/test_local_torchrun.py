"""A PyTorch job under torchrun as real processes: agents join and leave while it trains."""

import os
import re
import signal
from pathlib import Path

import pytest
from ddp import EPOCH, Ddp, check_end, job, undisturbed
from elastic import running
from local import processes, result, workload
from patience import wait_for

from headway.backend import procfs

AGENT = ["-m", "torch.distributed.run", "--monitor_interval", "1"]
AGENT += ["--redirects", "9:1", "--tee", "9:1"]
"""PyTorch 1.13 cannot read the default of the last two options in Python 3.11: it finds no member
of the enumeration whose value is 0. What is given is about a process that does not exist."""
STEPS = 20 * EPOCH
SLOW = [str(Path(__file__).with_name("slow_ddp.py")), str(STEPS), str(EPOCH)]


class Agents(Ddp):
    def claims(self, index):
        """How often a replica was started by Headway."""
        records = self.data / "runs" / "latest" / "records" / "x" / f"worker-{index}"
        return len(list(records.glob("claim.*")))

    def folder(self, index):
        return (self.data / "runs" / "latest" / "jobs" / "x" / f"worker-{index}").resolve()

    def agent(self, index):
        """The process of torchrun, below the shell of a replica."""
        marks = {"HEADWAY_REPLICA": f"worker-{index}", "HEADWAY_DIR": str(self.folder(index))}
        lines = {p: Path(f"/proc/{p}/cmdline").read_bytes() for p in procfs.marked(**marks)}
        (found,) = [p for p, line in lines.items() if line.split(b"\0")[2:3] == [AGENT[1].encode()]]
        return found

    def hurry(self):
        (self.folder(0) / "hurry").touch()


@pytest.mark.long
def test_agents_of_torchrun_join_leave_and_are_killed_while_the_job_trains(tmp_path, torch_python):
    """One leaves and another is killed at once: torchrun takes 20 s to notice each of them."""
    made, x = job([torch_python, *AGENT, *SLOW], elastic="torchrun"), Agents(tmp_path)
    path = workload(tmp_path, made, nodes=[{"cpu": 0.5, "count": 2}])
    with running("run", path, "--policy", "gang", data=tmp_path) as run:
        x.proceeds(1)
        x.scale(3)
        x.becomes(3)
        x.scale(2)
        os.kill(x.agent(1), signal.SIGKILL)
        wait_for(lambda: x.claims(1) == 2)
        x.becomes(2)
        x.hurry()
        assert run.wait(300) == 0
    check_end(x.log(), undisturbed(torch_python, STEPS))
    assert (x.claims(0), x.claims(2)) == (1, 1), "torchrun restarts the training, not Headway"
    worlds, steps = zip(*x.starts(), strict=True)
    assert (worlds[:2], worlds[-1]) == ((1, 3), 2)
    assert list(steps) == sorted(steps), "it went on from the last checkpoint"
    assert processes(tmp_path) == []


def test_a_worker_restarted_after_its_end_announces_the_same_end_and_the_job_ends_once(
    tmp_path, torch_python
):
    """A worker that has not exited is restarted by torchrun, here because an agent joins."""
    steps = STEPS + 5  # no multiple of the steps between two checkpoints
    command = [torch_python, *AGENT, SLOW[0], str(steps), str(EPOCH)]
    made, x = job(command, elastic="torchrun"), Agents(tmp_path)
    path = workload(tmp_path, made, nodes=[{"cpu": 0.5, "count": 2}])
    with running("run", path, "--policy", "gang", data=tmp_path) as run:
        x.proceeds(1)
        (stay := x.folder(0) / "stay").touch()
        x.hurry()
        wait_for(lambda: "done: " in x.log())
        x.scale(2)
        wait_for(lambda: x.log().count("done: ") == 2)
        stay.unlink()
        assert run.wait(300) == 0
    assert x.starts() == [(1, 0), (2, steps)]
    done = re.findall(r"^step (\d+)/", x.log(), re.MULTILINE)
    assert list(map(int, done)) == list(range(1, steps + 1)), "no step is repeated"
    ends = re.findall(r"^(?:samples|done): .*", x.log(), re.MULTILINE)
    assert ends[:2] == ends[2:]
    check_end(x.log(), undisturbed(torch_python, steps))
    assert (x.claims(0), x.claims(1)) == (1, 1)
    (ended,) = result(tmp_path)["per_job"]
    assert (ended["outcome"], ended["steps"]) == ("succeeded", steps)
    assert processes(tmp_path) == []
