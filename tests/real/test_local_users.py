"""As root, a job runs as the user that it names, with nothing of root's."""

import os
import stat
import tempfile
from pathlib import Path

import pytest
from local import job, workload
from test_local import headway

from headway.backend.local import run_as
from headway.errors import ConfigError
from headway.spec.load import read_workload
from headway.spec.runnable import to_jobs

NOBODY = 65534
SHOW = """
id -u; id -g; id -G
echo "home $HOME user $USER secret ${SECRET-none} lang $LANG"
touch "$HEADWAY_DIR/mine" "$HEADWAY_CHECKPOINT_DIR/saved" && echo written
ls "$(dirname "$(dirname "$(dirname "$HEADWAY_DIR")")")" 2>&1
cat "$HEADWAY_DIR/../../../workload.yaml" 2>&1
echo "loss: 0.5 step 1"
"""


@pytest.fixture
def open_folder():
    """A folder that every user can reach; that of pytest belongs to root alone."""
    if os.geteuid():
        pytest.skip("only root can start jobs of other users")
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_a_job_runs_as_the_user_that_it_names(open_folder, enforcement):
    del enforcement
    path = workload(open_folder, job("x", ["sh", "-c", SHOW], runAs="nobody"))
    data = open_folder / "data"
    headway("run", path, data=data, env={"SECRET": "of-root", "LANG": "C.UTF-8"})
    (run,) = [p for p in (data / "runs").iterdir() if not p.is_symlink()]
    (folder,) = (run / "jobs" / "x").glob("*-0")
    said = (folder / "out.log").read_text()
    assert said.startswith(f"{NOBODY}\n{NOBODY}\n{NOBODY}\n"), said
    assert "user nobody secret none lang C.UTF-8" in said
    assert "written" in said
    assert said.count("Permission denied") == 2, said  # neither the folders above nor the workload
    assert (folder / "mine").stat().st_uid == folder.stat().st_uid == NOBODY
    assert stat.S_IMODE(data.stat().st_mode) == 0o711


def test_a_command_that_does_not_exist_is_not_retried(open_folder):
    path = workload(open_folder, job("x", ["no-such-command"], runAs="nobody"))
    done = headway("run", path, data=open_folder / "data", check=False)
    assert done.returncode == 1
    assert "no-such-command: " in done.stderr  # permission denied, if PATH has folders of root
    assert "attempt" not in done.stderr


@pytest.mark.parametrize(
    ("user", "data", "says"),
    [
        ("no-such-user", "data", "job 'x' cannot run as 'no-such-user'"),
        ("nobody", "closed/data", "it cannot enter"),
    ],
)
def test_a_user_that_cannot_run_it_is_refused_at_the_start(open_folder, user, data, says):
    (open_folder / "closed").mkdir(mode=0o700)
    path = workload(open_folder, job("x", ["true"], runAs=user))
    done = headway("run", path, data=open_folder / data, check=False)
    assert (done.returncode, says in done.stderr) == (2, True), done.stderr
    assert not (open_folder / data).exists()


def test_without_root_no_other_user_is_possible(open_folder):
    path = workload(open_folder, job("x", ["true"], runAs="nobody"))
    jobs = to_jobs(read_workload(path), path)
    os.seteuid(NOBODY)
    try:
        with pytest.raises(ConfigError, match="Headway does not run as root"):
            run_as.check_users(jobs, open_folder / "data", str(path))
    finally:
        os.seteuid(0)
