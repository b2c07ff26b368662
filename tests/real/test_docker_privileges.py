"""A container has no privileges but those that its job asks for."""

import json

import pytest
from test_docker import docker_job, docker_run

SHOW = """
import os
status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
print("uid", os.getuid(), "cap", status["CapBnd"].strip(), "nnp", status["NoNewPrivs"].strip())
print("loss: 0.5 step 1")
open(os.environ["HEADWAY_DIR"] + "/mine", "w").close()
"""
SYS_NICE = 1 << 23


@pytest.mark.parametrize(
    ("spec", "uid", "capabilities", "locked"),
    [
        pytest.param({}, "1000", lambda kept: kept == 0, "1", id="none by default"),
        pytest.param(
            {"capabilities": ["SYS_NICE"]}, "1000", lambda kept: kept == SYS_NICE, "1", id="one"
        ),
        pytest.param(
            {"capabilities": ["DEFAULT"]}, "1000", lambda kept: kept > 0, "0", id="the engine's"
        ),
        pytest.param({"runAs": "1234:99"}, "1234", lambda kept: kept == 0, "1", id="a user"),
        pytest.param({"runAs": "0"}, "0", lambda kept: kept == 0, "1", id="root in the container"),
    ],
)
def test_a_container_has_only_what_its_job_asks_for(
    tmp_path, engines, spec, uid, capabilities, locked
):
    done = docker_run(engines[:1], tmp_path, docker_job("x", SHOW, **spec))
    assert json.loads(done.stdout)[0]["per_job"][0]["outcome"] == "succeeded"
    (log,) = (tmp_path / "runs" / "latest" / "jobs" / "x").glob("*/out.log")
    _, was, _, kept, _, nnp = log.read_text().splitlines()[0].split()
    assert (was, nnp) == (uid, locked)
    assert capabilities(int(kept, 16))
