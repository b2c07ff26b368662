"""One trial: a run of real jobs that is disturbed, resumed, and judged."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from random import Random
from threading import Thread
from time import monotonic, sleep, time
from typing import Any

from patience import Deadline

from campaign import docker, oracle
from campaign.job import job
from campaign.places import LosesPower, Place, SmallDisk
from campaign.target import Target
from headway.core.model.snapshot import Request
from headway.core.model.units import JobId, NodeId
from headway.errors import HeadwayError
from headway.runtime import journal, request_client
from headway.runtime.replay import find_journal, replay_journal
from headway.runtime.run_directory import RunDirectory

request_client.PATIENCE = 3.0
KINDS = ("fault", "random", "process", "disk", "power")
PLACES: dict[str, type[Place]] = {"disk": SmallDisk, "power": LosesPower}
POLICIES = ("headway", "headway", "fair", "specon")
LIMIT = 30.0
"""Seconds until a process must have ended by itself."""
RESUMES = 5
QUIET = 0.5
"""Seconds without a step: a job that is paused."""
PAUSED = 6.0
"""Seconds in which an acknowledged pause must have come true, while Headway runs."""
FILES = ("journal.", "file.", "replica.", "checkpoint.", "request.", "usage.", "earlier.")
"""Points at which a file is written: other errors make sense only there."""


class Headway:
    """A process, with its output in a file."""

    def __init__(self, trial: "Trial", *words: str, fault: str = "") -> None:
        self.began = time()
        self.cycle = trial.place.home / f"cycle-{len(trial.log)}"
        faults = f"journal.intend=trace:{self.cycle}{',' if fault else ''}{fault}"
        env = {**os.environ, **trial.target.env, "CHAOS_TRIAL": trial.id, "HEADWAY_FAULT": faults}
        self.output = trial.place.home / "headway.log"
        with self.output.open("ab") as log:
            command = [sys.executable, "-m", "headway", *words, "--data", str(trial.place.data)]
            self.popen = subprocess.Popen(
                command,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        trial.log.append(" ".join(words[:2]))

    @property
    def pid(self) -> int:
        return self.popen.pid

    def resumed_s(self) -> float | None:
        """Seconds until its first cycle."""
        with suppress(FileNotFoundError):
            return self.cycle.stat().st_mtime - self.began
        return None

    def kill(self, number: int = signal.SIGKILL) -> None:
        with suppress(ProcessLookupError):
            self.popen.send_signal(number)

    def wait(self, seconds: float) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            return self.popen.wait(seconds)
        return None


class Trial:
    def __init__(self, seed: int, target: Target, kind: str) -> None:
        self.seed, self.target, self.kind = seed, target, kind
        self.dice = Random(f"{seed}/{target.name}/{kind}")
        self.id = f"{target.name}-{kind}-{seed}-{os.getpid()}"
        self.place = PLACES.get(kind, Place)()
        self.log: list[str] = []
        self.what, self.fired = "", True
        self.wish: Wish | None = None
        self.found: list[str] = []
        self.forgiven: set[str] = set()
        self.resumed: list[float] = []
        self.back = 0.0
        """When Headway could act again, after it was stopped or killed."""
        self.jobs: dict[str, int] = {}

    # -- the run ---------------------------------------------------------------------------------

    def workload(self) -> Path:
        """Two jobs that save, one that does not, a gang, and a late one; more under load."""
        python, ledger = self.target.python, str(self.place.ledger) if self.target.ledger else ""
        dice, jobs = self.dice, []
        shapes: list[tuple[str, int, dict[str, Any]]] = [
            ("a", 45, {"saves": True}),
            ("b", 35, {"saves": True, "at": 0.2}),
            ("c", 15, {"at": 0.3}),
            ("g", 20, {"at": 0.4, "replicas": 2}),
            ("z", 15, {"at": 1.0 + dice.random()}),
        ]
        if self.kind == "random":
            shapes += [(f"n{i}", 10, {"at": 2 * dice.random()}) for i in range(6)]
        for name, steps, more in shapes:
            self.jobs[name] = steps
            jobs.append(job(name, python, steps, ledger, **more))
        path = self.place.home / "workload.json"
        head = {"apiVersion": "headway.dev/v1alpha1", "kind": "Workload"}
        path.write_text(json.dumps({**head, "nodes": list(self.target.nodes), "jobs": jobs}))
        return path

    def start(self, fault: str = "") -> Headway:
        policy = self.dice.choice(POLICIES)
        words = ["run", str(self.workload_path), "--policy", policy, "--json", *self.target.options]
        return Headway(self, *words, fault=fault)

    def resume(self, fault: str = "") -> Headway:
        return Headway(self, "run", "--resume", "latest", "--json", fault=fault)

    def events(self) -> dict[str, list[dict[str, Any]]]:
        return oracle.ledger(self.place.ledger if self.target.ledger else self.place.data)

    def until(self, seconds: float, headway: Headway, event: str = "") -> None:
        """Wait so long, or until the process has ended, or until a job told of this event."""
        end = monotonic() + seconds
        while monotonic() < end and headway.popen.poll() is None:
            if event and any(e["event"] == event for seen in self.events().values() for e in seen):
                return
            sleep(0.02)

    def go(self) -> dict[str, Any]:
        began = monotonic()
        self.workload_path = self.workload()
        try:
            headway = getattr(self, f"_{self.kind}")()
            self._finish(headway)
            self._judge()
        except subprocess.CalledProcessError as error:
            self.found.append(f"the trial itself failed: {error} {error.stderr}")
        line = {
            "seed": self.seed,
            "platform": self.target.name,
            "kind": self.kind,
            "what": self.what,
            **({"wish": self.wish.text} if self.wish else {}),
            "fired": self.fired,
            "resumed_s": round(max(self.resumed), 2) if self.resumed else None,
            "s": round(monotonic() - began, 2),
            "violations": [each[:200] for each in self.found[:6]],
        }
        if "Traceback" in self._output():
            line["traceback"] = self._output().strip().splitlines()[-1][:160]
        return line

    def close(self, keep: Path | None) -> None:
        oracle.clean(self.id, self.place.data)
        if self.target.engine:
            docker.remove(self.target.engine, self.place.data)
        self.place.close(keep / self.id if keep and self.found else None)

    def _output(self) -> str:
        path = self.place.home / "headway.log"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    # -- the kinds of disturbance ----------------------------------------------------------------

    def _fault(self) -> Headway:
        point = self.dice.choice(sorted(self.target.points))
        at = self.dice.randint(1, self.target.points[point])
        actions = ["kill"] * 6 + ["stop", "delay"]
        if point.startswith(FILES):
            actions += ["enospc", "eio"] + (
                ["short"] if point in ("journal.intend", "journal.settle") else []
            )
        action = self.dice.choice(actions)
        self.what = f"{point}@{at}={action}"
        fired = self.place.home / "fired"
        headway = self.start(f"{point}@{at}=trace:{fired},{self.what}")
        self._request(headway)
        if action == "stop":
            self._continue(headway)
        self._await(headway)
        self.fired = fired.exists()
        if headway.popen.poll() == -signal.SIGKILL and self.dice.random() < 1 / 3:
            second = f"*@{self.dice.randint(1, 25)}=kill"
            self.what += f" then {second}"
            headway = self._resume(fault=second)
        return headway

    def _continue(self, headway: Headway) -> None:
        """A process that stopped itself continues after a second, or is killed. The pacer stops
        processes too, but never for so long.
        """
        shim, stopped = self.what.startswith("shim."), dict[int, float]()
        end = monotonic() + LIMIT
        while headway.popen.poll() is None and (now := monotonic()) < end:
            pids = self._tree(headway)[0] if shim else [headway.pid]
            stopped = {p: stopped.get(p, now) for p in pids if oracle.state(p) == "T"}
            if any(now - since > 1.0 for since in stopped.values()):
                break
            if self.wish:
                self.wish.look(headway)
            sleep(0.02)
        if self.dice.random() < 0.5 and oracle.state(headway.pid) == "T":
            self.what += " then kill"
            headway.kill()
        for pid in oracle.processes(self.id, self.place.data):
            with suppress(OSError):
                os.kill(pid, signal.SIGCONT)
        self.back = time()

    def _random(self) -> Headway:
        headway = self.start()
        self.what = f"kill {self._some_time(headway, 2.2)}"
        self.fired = headway.popen.poll() is None
        headway.kill()
        return headway

    def _process(self) -> Headway:
        """Kill a shim, a training, a whole process group, the pacer, or Headway with a shim."""
        headway = self.start()
        after = self._some_time(headway, 1.2)
        kinds = ["training", "group", "hangup"]
        kinds += ["shim", "shim", "shim and headway"] if self.target.ledger else []
        kinds += ["pacer", "pacer"] if self.target.name == "nice" else []
        which = self.dice.choice(kinds)
        shims, trainings, pacers = self._tree(headway)
        self.what = f"{which} {after}"
        if which == "hangup":
            os.killpg(headway.pid, signal.SIGHUP)
            headway.wait(LIMIT)
            sleep(0.8)
            if any(oracle.state(pid) == "T" for pid in trainings):
                self.found.append("jobs stay stopped after the terminal was closed")
            return headway
        pool = {"training": trainings, "pacer": pacers}.get(which, shims or trainings)
        if not pool:
            self.fired = False
            return headway
        pid = self.dice.choice(sorted(pool))
        if which.startswith(
            "shim"
        ):  # the parent of the training, and only it, learns its exit code
            self.forgiven.add(oracle.variable(pid, "HEADWAY_JOB"))
        if "headway" in which:
            headway.kill()
        with suppress(OSError):
            (os.killpg if which == "group" else os.kill)(pid, signal.SIGKILL)
        if which in ("training", "group"):  # a success of this instant cannot be told from a kill
            self._forgive(time())
        return headway

    def _some_time(self, headway: Headway, most: float) -> str:
        """Wait for some time after the first job has started; now and then not even that long."""
        if self.dice.random() < 0.1:
            after = self.dice.uniform(0.2, 1.5)
            self.until(after, headway)
            return f"{after:.2f} s after the start"
        self.until(LIMIT, headway, "start")
        self._request(headway)
        after = self.dice.uniform(0.0, most)
        self.until(after, headway)
        return f"{after:.2f} s after the first job"

    def _tree(self, headway: Headway) -> tuple[list[int], list[int], list[int]]:
        """Shims, trainings and pacers of the trial."""
        shims, trainings, pacers = [], [], []
        for pid in oracle.processes(self.id, self.place.data):
            with suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes()
                if pid == headway.pid:
                    continue
                if b"enforcement.pacer" in words:
                    pacers.append(pid)
                elif words.startswith(b"/bin/sh"):
                    shims.append(pid)
                elif b"import fcntl" in words:
                    trainings.append(pid)
        return shims, trainings, pacers

    def _forgive(self, at: float) -> None:
        for replica, seen in self.events().items():
            if any(e["event"] == "done" and abs(e["at"] - at) < 0.5 for e in seen):
                self.forgiven.add(replica.partition(".")[0])

    def _disk(self) -> Headway:
        assert isinstance(self.place, SmallDisk)  # noqa: S101 - the type checker's
        headway = self.start()
        kill, full = self.dice.random() < 0.4, self.dice.random() < 0.7
        left = self.dice.choice([0, 0, 4096, 16384])
        self.what = f"full, {left} bytes left" if full else "read-only"
        self.what += f"{', then kill' if kill else ''} {self._some_time(headway, 2.0)}"
        self.fired = headway.popen.poll() is None
        if full:
            self.place.fill(left)
        else:
            try:
                self.place.read_only(on=True)
            except subprocess.CalledProcessError:  # a file is open for writing
                self.what, full = f"full (busy, so not {self.what})", True
                self.place.fill(left)
        self.until(self.dice.uniform(0.5, 1.5), headway)
        if kill:
            headway.kill()
        if full:
            self.place.relieve()
        else:
            self.place.read_only(on=False)
        return headway

    def _power(self) -> Headway:
        assert isinstance(self.place, LosesPower)  # noqa: S101 - the type checker's
        headway = self.start()
        self.what = f"cut {self._some_time(headway, 2.2)}"
        self.fired = headway.popen.poll() is None
        pids = oracle.processes(self.id, self.place.data)
        for pid in pids:
            with suppress(OSError):
                os.kill(pid, signal.SIGSTOP)
        self.place.cut()
        headway.kill()
        oracle.clean(self.id, self.place.data)
        headway.wait(LIMIT)
        self.place.restore()
        known = self._known()
        done = (r for r, seen in self.events().items() if any(e["event"] == "done" for e in seen))
        self.forgiven |= {r.partition(".")[0] for r in done} - known
        return headway

    def _known(self) -> set[str]:
        """Jobs whose end is on the disk."""
        known = set()
        for path in self.place.data.glob("runs/2*"):
            with suppress(OSError, ValueError, KeyError, HeadwayError):
                for line in journal.read(path / "journal.jsonl"):
                    known |= {j.id for j in line["seen"].jobs if j.phase.ended}
            for state in path.glob("jobs/*/state.json"):
                with suppress(OSError, ValueError):
                    if json.loads(state.read_text())["phase"] == "succeeded":
                        known.add(state.parent.name)
        return known

    # -- requests --------------------------------------------------------------------------------

    def _request(self, headway: Headway) -> None:
        """Now and then a user asks for something, shortly before the disturbance."""
        if self.dice.random() < 0.35:
            name, wish = self.dice.choice("ab"), self.dice.choice(["pause", "move"])
            self.wish = Wish(self, headway, name, wish)

    # -- the end ---------------------------------------------------------------------------------

    def _resume(self, fault: str = "") -> Headway:
        headway = self.resume(fault)
        self._await(headway)
        took = headway.resumed_s()
        if took is not None:
            self.resumed.append(took)
            self.back = headway.began + took
        return headway

    def _await(self, headway: Headway) -> None:
        """Until it ends; a job that a user paused is continued meanwhile."""
        deadline = Deadline(LIMIT)
        while headway.popen.poll() is None and not deadline.passed():
            if self.wish:
                self.wish.look(headway)
            sleep(0.03)
        if headway.popen.poll() is None:
            self.found.append(f"`headway {self.log[-1]}` does not end")
            headway.kill()
            headway.wait(LIMIT)

    def _finish(self, headway: Headway) -> None:
        """Resume until the run has ended."""
        self._await(headway)
        for _ in range(RESUMES):
            if (self.place.data / "runs" / "latest" / "result.json").exists():
                return
            if not (self.place.data / "runs" / "latest" / "workload.yaml").exists():
                if self.events():
                    self.found.append("the run is lost: it cannot be resumed")
                    return
                headway = self.start()  # it died before there was a run
                self._await(headway)
            else:
                headway = self._resume()
            if self.found:
                return
        self.found.append(f"not resumed: {self._output().strip()[-300:]}")

    def _judge(self) -> None:
        if self.what.startswith("shim.exit") and "=kill" in self.what:  # likewise, of one job
            self.forgiven |= set(oracle.repeated(self.events(), self.jobs)[:1])
        self.found += oracle.judge(self.events(), self.jobs, self.forgiven)
        result = self.place.data / "runs" / "latest" / "result.json"
        if result.exists():
            per_job = {j["name"]: j for j in json.loads(result.read_text())[0]["per_job"]}
            bad = {n: j["outcome"] for n, j in per_job.items() if j["outcome"] != "succeeded"}
            if bad:
                self.found.append(f"outcomes: {bad}")
            if self.wish:
                self.found += self.wish.broken(per_job)
        try:
            replay = replay_journal(find_journal("latest", self.place.data))
            if replay.differences:
                self.found.append(f"replay: {len(replay.differences)} differences")
        except (HeadwayError, OSError, ValueError, KeyError) as error:
            self.found.append(f"replay: {error!r}"[:200])
        self.found += [f"left: {each}" for each in oracle.left(self.id, self.place.data)]
        if self.target.engine:
            there = docker.containers(self.target.engine, self.place.data)
            self.found += [f"left: container {each[:12]}" for each in there]


class Wish:
    """A request of a user, sent in another thread: the process that it asks may die."""

    def __init__(self, trial: Trial, headway: Headway, name: str, wish: str) -> None:
        self.trial, self.name, self.wish = trial, name, wish
        self.acknowledged_at = 0.0
        self.over, self.problem, self.said = False, "", ""
        self._by: Headway | None = None
        self._since, self._looked_at, self._step = 0.0, 0.0, -1
        self._thread = Thread(target=self._send, args=(headway,), daemon=True)
        self._thread.start()
        self._thread.join(4.0)

    @property
    def text(self) -> str:
        return f"{self.wish} {self.name}{', acknowledged' if self.acknowledged_at else ''}"

    def _send(self, headway: Headway) -> None:
        replica = f"{self.name}.worker-0"
        end = monotonic() + 4.0
        while headway.popen.poll() is None and monotonic() < end:
            if any(e["event"] == "step" for e in self.trial.events().get(replica, ())):
                break
            sleep(0.02)
        if self._ask(self.wish) == "":
            self.acknowledged_at = time()

    def _ask(self, wish: str) -> str:
        """Why it was refused; "": it was accepted."""
        try:
            folder = RunDirectory.find(self.trial.place.data, "latest")
            node = None
            if wish == "move":
                placed = [
                    r.node
                    for x in journal.read(folder.journal)
                    for r in x["seen"].replicas
                    if r.id == f"{self.name}/worker-0"
                ]
                names = [n["name"] for n in self.trial.target.nodes]
                node = NodeId(next(n for n in names if n != placed[-1]))
            return request_client.ask(folder, Request(job=JobId(self.name), wish=wish, to=node))
        except (HeadwayError, OSError, ValueError, KeyError, LookupError, StopIteration) as error:
            return repr(error)

    def look(self, headway: Headway) -> None:
        """Continue a paused job once it has been seen to stand still."""
        if self.wish != "pause" or self.over or self._thread.is_alive():
            return
        now, step = monotonic(), self._last()
        if self._by is not headway or headway.resumed_s() is None:
            # While no Headway runs, a job that was to be paused goes on.
            self._by, self._since, self._looked_at, self._step = headway, now, now, step
        if now - self._looked_at < QUIET:
            return
        moved, self._looked_at, self._step = step != self._step, now, step
        if moved and self.acknowledged_at and not self._done():
            if now - self._since < PAUSED:
                return
            self.problem = f"{self.name} goes on although its pause was acknowledged"
        self.said = self._ask("resume")
        self.over = self.said in ("", "it has ended")

    def _done(self) -> bool:
        seen = self.trial.events().get(f"{self.name}.worker-0", ())
        return any(e["event"] == "done" for e in seen)

    def _last(self) -> int:
        seen = self.trial.events().get(f"{self.name}.worker-0", [])
        return max((e.get("step", 0) for e in seen), default=0)

    def broken(self, per_job: dict[str, dict[str, Any]]) -> list[str]:
        """How an acknowledged request was not honoured."""
        if not self.acknowledged_at:
            return []
        found = [self.problem] if self.problem else []
        seen = self.trial.events().get(f"{self.name}.worker-0", [])
        done = max((e["at"] for e in seen if e["event"] == "done"), default=0.0)
        if done - max(self.acknowledged_at, self.trial.back) < 1.0:
            return []  # it ended before, or while no Headway ran
        what = self.trial.what
        # A replica that cannot be started on the target is started where the policy places it.
        refused = what.startswith("replica.attempt") and what.endswith(("=enospc", "=eio"))
        restarted = self.trial.kind not in ("fault", "random") or "shim" in what or refused
        if self.wish == "move" and not per_job[self.name]["moves"] and not restarted:
            found.append(f"{self.name} was not moved although that was acknowledged")
        if self.wish == "pause" and not self.over and not self._done():
            found.append(f"{self.name}: resume refused: {self.said}")
        return found
