"""A server for all users of the machine, and two users of it without accounts."""

import json
import os
import signal
import site
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

from patience import PATIENCE, wait_for

from headway.client import Client
from headway.errors import HeadwayError

SCHEDULER, ANN, BEN = 64990, 54321, 54322
SOURCE = Path(__file__).parents[2] / "src"


@contextmanager
def interpreter(folder):
    """A Python that every user can start: that of the tests may be in a folder of root."""
    base = Path(sys.base_prefix)
    program = base / "bin" / f"python3.{sys.version_info.minor}"
    if all(above.stat().st_mode & 0o001 for above in program.parents):
        yield program
        return
    there = folder / "python"
    there.mkdir()
    subprocess.run(["mount", "--bind", base, there], check=True)
    try:
        yield there / program.relative_to(base)
    finally:
        subprocess.run(["umount", "--lazy", there], check=True)


class MachineServer:
    def __init__(self, folder, program):
        self.folder, self.program = folder, program
        self.data, self.socket = folder / "data", folder / "run" / "headway.sock"
        self.home = {ANN: folder / "ann", BEN: folder / "ben"}
        for uid, home in self.home.items():
            home.mkdir(mode=0o700)
            os.chown(home, uid, uid)
        path = os.pathsep.join([str(SOURCE), *site.getsitepackages()])
        self.env = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "PYTHONPATH": path,
            "PYTHONDONTWRITEBYTECODE": "1",
            "LD_LIBRARY_PATH": str(Path(program).parents[1] / "lib"),
        }
        self.process = None

    def start(self, *options):
        self.begin(*options)
        wait_for(self._answers)
        return self

    def begin(self, *options):
        """Start it, without waiting for its first answer."""
        words = ["serve", "--system", "--data", self.data, "--socket", self.socket]
        words += ["--user", str(SCHEDULER), *options]
        env = {**self.env, "SECRET_OF_ROOT": "x"}
        if "HEADWAY_FAULT" in os.environ:
            env["HEADWAY_FAULT"] = os.environ["HEADWAY_FAULT"]
        with (self.folder / "serve.log").open("ab") as log:
            self.process = subprocess.Popen(
                [self.program, "-m", "headway", *map(str, words)], env=env, stderr=log, cwd="/"
            )

    def _answers(self):
        assert self.process.poll() is None, (self.folder / "serve.log").read_text()
        try:
            with Client(self.socket) as client:
                client.page()
        except (HeadwayError, OSError):
            return False
        return True

    @property
    def scheduler(self):
        """Its pid."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        pids = [int(pid) for pid in path.read_text().split()]
        return next(pid for pid in pids if Path(f"/proc/{pid}").stat().st_uid == SCHEDULER)

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def run_as(self, uid, *words, **env):
        """A program of a user, in its home."""
        return subprocess.run(
            list(map(str, words)), user=uid, group=uid, extra_groups=[], cwd=self.home[uid],
            env={**self.env, **self._own(uid), **env},
            capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip

    def _own(self, uid):
        return {"HOME": str(self.home[uid]), "HEADWAY_SYSTEM": str(self.socket)}

    def headway(self, uid, *words, check=True, **env):
        done = self.run_as(uid, self.program, "-m", "headway", *words, **env)
        assert not check or done.returncode == 0, done.stderr
        return done

    def submit(self, uid, name, script, *options, **env):
        """Submit a shell script."""
        words = ("submit", "--name", name, *options, "--", "sh", "-c", script)
        return self.headway(uid, *words, **env).stdout.strip()

    def jobs(self):
        """What root sees."""
        with Client(self.socket) as client:
            return {job.job: job for job in client.jobs()}

    def wait(self, *names):
        """Until these jobs have ended; their phases."""
        wait_for(lambda: all(self.jobs()[name].ended for name in names), every=0.2)
        found = self.jobs()
        return [found[name].phase for name in names]

    def wait_for(self, name, phase):
        wait_for(lambda: self.jobs()[name].phase == phase, every=0.1)

    @property
    def run(self):
        [found] = (self.data / "scheduler" / "runs").glob("2*")
        return found

    def replica(self, job):
        return self.run / "jobs" / job / "main-0"

    def claim(self, job, attempt=1):
        """The pid of the shell of an attempt."""
        path = self.run / "records" / job / "main-0" / f"claim.{attempt}"
        wait_for(lambda: path.exists() and path.read_text().strip())
        return int(path.read_text().split()[0])

    def journal(self):
        return [json.loads(line) for line in (self.run / "journal.jsonl").read_text().splitlines()]


@contextmanager
def machine_server():
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        with interpreter(folder) as program:
            made = MachineServer(folder, program)
            try:
                yield made
            finally:
                if made.process is not None and made.process.poll() is None:
                    for job in [j.job for j in made.jobs().values() if not j.ended]:
                        with Client(made.socket) as client:
                            client.cancel(job)
                    wait_for(lambda: all(job.ended for job in made.jobs().values()), every=0.2)
                    made.stop()
