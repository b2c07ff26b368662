"""One trial of `headway serve --system`: a scheduler and a launcher, killed while users submit."""

import os
import signal
import sqlite3
import subprocess
from collections import Counter
from contextlib import ExitStack, suppress
from hashlib import sha256
from pathlib import Path
from random import Random
from time import monotonic, sleep, time
from typing import Any

from machine_users import ANN, BEN, MachineServer, interpreter
from patience import wait_for

from campaign import oracle
from campaign.places import LosesPower, Place
from campaign.target import Target
from headway.errors import HeadwayError
from headway.runtime.replay import find_journal, replay_journal

KINDS = ("scheduler", "launcher", "both", "power")
EACH = 8
"""Submissions of each user."""
JOB = """
exec 9>"$0.lock"; flock -n 9 || echo "$0 double" >> ledger
echo "$0 began" >> ledger; sleep $1; echo "$0 ended" >> ledger
"""
SUBMITS = """
import sys, time
from pathlib import Path
from random import Random
from headway.client import Client
from headway.errors import BackendError, NoServer
socket, script, count, tries, seed = sys.argv[1:]
dice = Random(seed)
for i in range(int(count)):
    command = ["sh", "-c", script, f"j{i}", f"{dice.uniform(0.05, 1.5):.2f}"]
    spec = {"tasks": [{"command": command}], "backoffLimit": int(tries)}
    while True:
        try:
            with Client(Path(socket), timeout=5.0) as client:
                job = {"name": "job", "spec": spec}
                [name] = client.submit([job], directory=Path.cwd(), key=f"k{i}")
            break
        except (BackendError, NoServer, OSError):
            time.sleep(0.05)
    print(i, name, flush=True)
    time.sleep(dice.uniform(0, 0.4))
"""


class ServerTrial:
    """Two users submit until each has its answers; one process or both are killed meanwhile. A kind
    `power` cuts the power of the disk with all that the server stores.
    """

    def __init__(self, seed: int, target: Target, kind: str) -> None:
        self.seed, self.target, self.kind = seed, target, kind
        self.dice = Random(f"{seed}/{target.name}/{kind}")
        self.place = LosesPower() if kind == "power" else Place()
        self.what = ""
        self.found: list[str] = []
        self.ended_before: set[str] = set()
        """Jobs whose end was on the disk when the power was cut."""
        self._resumed: list[float] = []
        self._users: dict[int, subprocess.Popen[bytes]] = {}
        self._stack = ExitStack()
        program = self._stack.enter_context(interpreter(self.place.home))
        self.machine = MachineServer(self.place.home, program)

    def go(self) -> dict[str, Any]:
        began = monotonic()
        self.machine.start()
        for uid in (ANN, BEN):
            self._submits(uid)
        wait_for(lambda: any(map(self._told, (ANN, BEN))))
        after = self.dice.uniform(0.0, 2.0)
        sleep(after)
        self.what = f"{self.kind} {after:.2f} s after the first submission"
        self._disturb()
        self._resume()
        for user in self._users.values():
            user.wait()
        wait_for(lambda: all(job.ended for job in self.machine.jobs().values()), every=0.1)
        self._judge()
        return {
            "seed": self.seed,
            "platform": self.target.name,
            "kind": self.kind,
            "what": self.what,
            "fired": True,
            "resumed_s": round(max(self._resumed), 2),
            "s": round(monotonic() - began, 2),
            "violations": [each[:200] for each in self.found[:6]],
            **({"traceback": "serve.log"} if "Traceback" in self._log() else {}),
        }

    def close(self, keep: Path | None) -> None:
        for pid in (*self._processes(), *(user.pid for user in self._users.values())):
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if self.machine.process is not None:
            self.machine.process.wait()
        wait_for(lambda: not self._processes())
        for top, _, _ in os.walk("/sys/fs/cgroup", topdown=False):
            if f"/{self._group}" in top:
                with suppress(OSError):
                    Path(top).rmdir()
        self._stack.close()
        self.place.close(keep / f"{self.kind}-{self.seed}" if keep and self.found else None)

    # -- what happens ----------------------------------------------------------------------------

    def _submits(self, uid: int) -> None:
        tries = 20 if self.kind == "power" else 0
        words = [self.machine.program, "-c", SUBMITS, self.machine.socket, JOB, EACH, tries]
        with (self.place.ledger / f"told-{uid}").open("wb") as told:
            self._users[uid] = subprocess.Popen(
                [*map(str, words), f"{self.seed}/{uid}"], stdout=told, cwd=self.machine.home[uid],
                user=uid, group=uid, extra_groups=[], env=self.machine.env,
            )  # fmt: skip

    def _told(self, uid: int) -> list[tuple[str, str]]:
        """The submissions that were acknowledged: number, and id of the job."""
        lines = (self.place.ledger / f"told-{uid}").read_text(encoding="ascii").splitlines()
        return [(number, name) for number, _, name in (line.partition(" ") for line in lines)]

    def _disturb(self) -> None:
        process = self.machine.process
        assert process is not None  # noqa: S101 - it was started
        pids = {"scheduler": [self.machine.scheduler], "launcher": [process.pid]}
        if isinstance(self.place, LosesPower):
            self._cut(self.place)
        else:
            _kill(pids.get(self.kind) or [*pids["launcher"], *pids["scheduler"]])
        process.wait()
        wait_for(lambda: not Path(f"/proc/{pids['scheduler'][0]}").exists())

    def _cut(self, place: LosesPower) -> None:
        pids = self._processes()
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        place.cut()
        _kill(pids)
        wait_for(lambda: not self._processes())
        place.restore()
        self.ended_before = {name for name, outcome in self._stored() if outcome is not None}

    def _resume(self) -> None:
        """Start the server again; one in three is killed meanwhile."""
        if self.dice.random() < 1 / 3:
            self.machine.begin()
            sleep(after := self.dice.uniform(0.0, 2.0))
            self.what += f", then both {after:.2f} s after the start"
            _kill(self._server())
            assert self.machine.process is not None  # noqa: S101 - it was started
            self.machine.process.wait()
        began = time()
        self.machine.start()
        self._resumed.append(time() - began)

    # -- what must hold --------------------------------------------------------------------------

    def _judge(self) -> None:
        jobs = self.machine.jobs().values()
        for uid in (ANN, BEN):
            mine = {job.job: job.phase for job in jobs if job.uid == uid}
            lines = (self.machine.home[uid] / "ledger").read_text(encoding="ascii").splitlines()
            self.found += judge(dict(self._told(uid)), mine, lines, self.kind, self.ended_before)
        code = self.machine.stop()
        if code:
            self.found.append(f"the server ended with code {code}")
        self.found += [f"left: process {pid}" for pid in self._processes()]
        with sqlite3.connect(self._database) as database:
            [(sound,)] = database.execute("PRAGMA integrity_check").fetchall()[:1]
        database.close()
        if sound != "ok":
            self.found.append(f"jobs.db: {sound}")
        try:
            replay = replay_journal(find_journal("latest", self.machine.data / "scheduler"))
            if replay.differences:
                self.found.append(f"replay: {len(replay.differences)} differences")
        except (HeadwayError, OSError, ValueError, KeyError) as error:
            self.found.append(f"replay: {error!r}"[:200])

    @property
    def _database(self) -> Path:
        return self.machine.run / "jobs.db"

    def _stored(self) -> list[tuple[str, str | None]]:
        """Jobs and their outcomes, from a copy: the server is the first to open its files."""
        copy = self.place.home / "copy"
        copy.mkdir()
        for path in self._database.parent.glob("jobs.db*"):
            (copy / path.name).write_bytes(path.read_bytes())
        database = sqlite3.connect(copy / "jobs.db")
        found = database.execute("SELECT id, outcome FROM jobs").fetchall()
        database.close()
        return found

    def _log(self) -> str:
        path = self.place.home / "serve.log"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    @property
    def _group(self) -> str:
        """The control group of the scheduler and its jobs."""
        return f"headway-system-{sha256(str(self.machine.data).encode()).hexdigest()[:8]}"

    def _server(self) -> list[int]:
        """The launcher and the scheduler, if they run."""
        process = self.machine.process
        if process is None or process.poll() is not None:
            return []
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        with suppress(OSError):
            pids = [int(pid) for pid in children.read_text(encoding="ascii").split()]
            return [process.pid, *(p for p in pids if Path(f"/proc/{p}").stat().st_uid)]
        return [process.pid]

    def _processes(self) -> list[int]:
        """Those of the server, and of its jobs."""
        found = self._server()
        for path in Path("/proc").glob("[0-9]*/cgroup"):
            with suppress(OSError):
                if self._group in path.read_text(encoding="ascii"):
                    found.append(int(path.parent.name))
        return [pid for pid in dict.fromkeys(found) if oracle.state(pid) not in ("Z", "")]


def judge(
    told: dict[str, str], jobs: dict[str, str], ledger: list[str], kind: str, before: set[str]
) -> list[str]:
    """Violations of one user. `told`: the job of each submission that was acknowledged; `jobs`: the
    phase of each job; `ledger`: what the jobs did; `before`: those that had ended before the power
    was cut.
    """
    found = [f"submission {i}: job {name} is lost" for i, name in told.items() if name not in jobs]
    if len(jobs) != EACH or len(told) != EACH:
        found.append(f"{len(jobs)} jobs and {len(told)} answers of {EACH} submissions")
    found += [f"job {name} has {phase}" for name, phase in jobs.items() if phase != "succeeded"]
    seen = Counter(ledger)
    for i, name in told.items():
        began, ended, double = (seen[f"j{i} {what}"] for what in ("began", "ended", "double"))
        if double:
            found.append(f"job {name}: two attempts ran at the same time")
        again = kind == "power" and name not in before
        if not ended or (not again and (began, ended) != (1, 1)):
            found.append(f"job {name}: began {began} times, ended {ended} times")
    return found


def _kill(pids: list[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
