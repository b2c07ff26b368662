"""A job of one command, as `headway run -- COMMAND` and `headway submit -- COMMAND` make it."""

import pytest

from headway.errors import ConfigError
from headway.spec.single_job import LONGEST_NAME, single_job
from headway.spec.workload import make_workload


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["python", "-u", "src/Train_1.py", "--lr=1"], "train-1"),
        (["./prepare", "data"], "prepare"),
        (["sh", "-c", "true"], "sh"),
        (["./__.__"], "job"),
        (["python", "a" * (LONGEST_NAME - 1) + "_" + "b.py"], "a" * (LONGEST_NAME - 1)),
    ],
)
def test_the_job_has_the_name_of_its_script(command, name):
    [job] = make_workload(jobs=[single_job(command)]).jobs
    assert job.name == name


def test_a_workload_can_be_made_of_it():
    [job] = make_workload(jobs=[single_job(["true"], "my.job", 2, 300)]).jobs
    assert (job.name, job.spec.backoff_limit, job.spec.total_steps) == ("my.job", 2, 300)
    assert job.spec.tasks[0].command == ("true",)


@pytest.mark.parametrize("name", ["Train", "-a", "a-", "a b", "a\n", "é", "a" * 64, "\udcff"])
def test_a_wrong_name_is_refused(name):
    with pytest.raises(ConfigError, match="not a name of a job") as refused:
        single_job(["true"], name)
    assert "lower-case letters" in refused.value.hint


def test_a_command_that_is_not_utf_8_is_refused():
    with pytest.raises(ConfigError, match="in the command is not UTF-8"):
        single_job(["true", "data/\udcff"])
