"""A server of which one process or both are killed while two users submit, and a power cut: each
accepted job runs once. `scripts/chaos --platform system` does that 300 times.
"""

import os

import pytest
from campaign.server import ServerTrial
from campaign.target import Target


@pytest.fixture
def violations():
    if os.geteuid():
        pytest.skip("only root can serve several users")
    return run


def run(kind):
    trial = ServerTrial(1, Target("system", {}), kind)
    try:
        return trial.go()["violations"]
    finally:
        trial.close(None)


@pytest.mark.parametrize(
    "kind",
    ["both", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("scheduler", "launcher"))],
)
def test_every_accepted_job_runs_once_as_its_user_whichever_process_is_killed(violations, kind):
    assert violations(kind) == []


@pytest.mark.usefixtures("loop_device")
def test_every_accepted_job_is_there_after_a_power_cut(violations):
    assert violations("power") == []
