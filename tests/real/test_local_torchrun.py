"""A PyTorch job under torchrun as real processes: agents join and leave while it trains."""

import os
import re
import signal
from pathlib import Path

import test_local_torch as ddp
from elastic import Training, running
from local import processes, workload
from patience import wait_for

from headway.backend import procfs

undisturbed = ddp.undisturbed
AGENT = ["-m", "torch.distributed.run", "--monitor_interval", "1"]
AGENT += ["--redirects", "9:1", "--tee", "9:1"]
"""PyTorch 1.13 cannot read the default of the last two options in Python 3.11: it finds no member
of the enumeration whose value is 0. What is given is about a process that does not exist."""


class Ddp(Training):
    def starts(self):
        """The number of workers and the first step of each start, as the chief says."""
        found = re.findall(r"^rank \d of (\d), from step (\d+)", self.log(), re.MULTILINE)
        return [(int(world), int(step)) for world, step in found]

    def becomes(self, count):
        wait_for(lambda: self.starts() and self.starts()[-1][0] == count)
        self.proceeds(2)

    def claims(self, index):
        """How often a replica was started by Headway."""
        records = self.data / "runs" / "latest" / "records" / "x" / f"worker-{index}"
        return len(list(records.glob("claim.*")))

    def agent(self, index):
        """The process of torchrun, below the shell of a replica."""
        folder = self.data / "runs" / "latest" / "jobs" / "x" / f"worker-{index}"
        marks = {"HEADWAY_REPLICA": f"worker-{index}", "HEADWAY_DIR": str(folder.resolve())}
        lines = {p: Path(f"/proc/{p}/cmdline").read_bytes() for p in procfs.marked(**marks)}
        (found,) = [p for p, line in lines.items() if line.split(b"\0")[2:3] == [AGENT[1].encode()]]
        return found


def job(python, demand=0.008):
    command = [python, *AGENT, *ddp.words(python, demand)[1:]]
    worker = {"name": "worker", "command": command, "env": ddp.SOURCE, "elastic": "torchrun"}
    worker |= {"replicas": 1, "minReplicas": 1, "maxReplicas": 3}
    return {"name": "x", "spec": {"tasks": [worker], "checkpoint": {"mode": "sdk"}}}


def test_agents_of_torchrun_join_and_leave_while_the_job_trains(
    tmp_path, torch_python, undisturbed
):
    path, x = workload(tmp_path, job(torch_python), nodes=[{"cpu": 0.5, "count": 2}]), Ddp(tmp_path)
    with running("run", path, "--policy", "gang", data=tmp_path) as run:
        x.proceeds(2)
        x.scale(3)
        x.becomes(3)
        x.scale(2)
        x.becomes(2)
        os.kill(x.agent(1), signal.SIGKILL)
        wait_for(lambda: x.claims(1) == 2)
        assert run.wait(300) == 0
    ddp.check(x, tmp_path, undisturbed)
    assert (x.claims(0), x.claims(2)) == (1, 1), "torchrun restarts the training, not Headway"
    assert [world for world, _ in x.starts()][:3] == [1, 3, 2]
    steps = [step for _, step in x.starts()]
    assert steps == sorted(steps), "it went on from the last checkpoint"
    assert processes(tmp_path) == []
