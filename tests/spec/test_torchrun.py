"""`elastic: torchrun` in a manifest."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from headway.errors import ConfigError
from headway.spec.manifest import TrainingJobSpec
from headway.spec.runnable import to_jobs
from headway.spec.workload import make_workload


def task(*command, **more):
    return {"name": "worker", "elastic": "torchrun", "command": list(command), **more}


def jobs(*tasks):
    made = make_workload(jobs=[{"name": "x", "spec": {"tasks": list(tasks)}}])
    return to_jobs(made, Path("w.yaml"))


@pytest.mark.parametrize(
    "command",
    [
        ("torchrun", "train.py"),
        ("/opt/bin/torchrun", "train.py"),
        ("python", "-m", "torch.distributed.run", "train.py"),
        ("sh", "-c", "exec torchrun --nproc-per-node 2 train.py"),
    ],
)
def test_a_command_that_starts_torchrun_is_accepted(command):
    (job,) = jobs(task(*command))
    assert job.commands["worker"].argv == command


def test_a_command_that_does_not_start_torchrun_is_refused():
    """Each replica would train alone."""
    with pytest.raises(ConfigError, match="does not start torchrun") as caught:
        jobs(task("python", "train.py"))
    assert caught.value.hint == "write `command: [torchrun, train.py]`"


def test_a_task_of_torchrun_is_the_only_one():
    with pytest.raises(ValidationError, match="must be the only one"):
        TrainingJobSpec.model_validate({"tasks": [task("torchrun", "x.py"), {"name": "ps"}]})
