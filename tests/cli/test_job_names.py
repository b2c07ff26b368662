"""A shell completes the names of jobs, without slow imports."""

import os
import subprocess
import sys

from headway.runtime.api_address import VARIABLE
from machine_callers import job, public_server, submit
from serving import submit as submit_own

PROGRAM = "import sys; sys.argv = ['headway']; from headway.cli import main; main()"
SLOW = {"pydantic", "numpy", "starlette", "uvicorn", "kubernetes", "rich"}


def offered(*words):
    """The names that bash gets for the last word; nothing slow is imported."""
    asked = {
        "_HEADWAY_COMPLETE": "complete_bash",
        "COMP_WORDS": f"headway {' '.join(words)}",
        "COMP_CWORD": str(len(words)),
    }
    ran = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", PROGRAM],
        env={**os.environ, **asked}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = ran.stderr.splitlines()
    assert all(line.startswith("import time:") for line in lines), ran.stderr
    assert not {line.rpartition("|")[2].strip().partition(".")[0] for line in lines} & SLOW
    return ran.stdout.split()


def test_names_of_jobs_are_offered(serving, headway, tmp_path):
    assert offered("cancel", "") == offered("logs", "") == []
    serving()
    for name in ("vae", "gan"):
        submit_own(headway, "--name", name, "--", "sleep", "3600")
    submit_own(headway, "--name", "done", "--", "true")
    assert headway("wait", "done").code == 0
    for command in ("cancel", "pause", "resume", "move", "scale", "wait"):
        assert offered(command, "") == ["vae", "gan"], command
    for command in ("logs", "explain"):
        assert offered(command, "") == ["vae", "gan", "done"], command
    assert offered("wait", "vae", "g") == ["gan"]
    assert offered("cancel", "--run", "latest", "v") == ["vae"]
    assert offered("cancel", "--data", str(tmp_path / "nothing"), "") == []
    assert offered("pause", "--backend", "kubernetes", "") == []
    assert headway("stop", "--jobs", "stop").code == 0
    assert offered("cancel", "") == []


def test_names_of_jobs_on_the_server_of_the_machine_are_offered(monkeypatch):
    with public_server() as path:
        submit(path, 0, job("far"))
        monkeypatch.setenv(VARIABLE, str(path))
        assert offered("cancel", "") == ["far"]
    assert offered("cancel", "") == []
