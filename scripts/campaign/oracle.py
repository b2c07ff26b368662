"""What must hold after a trial, found outside Headway: ledgers, processes and groups."""

import json
import os
import signal
from contextlib import suppress
from math import inf
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from campaign.job import weights

GRACE = 3.0
"""Seconds until what an ended run left must be gone."""


def ledger(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The events of each replica: JOB.REPLICA."""
    found = {}
    for path in sorted(folder.rglob("*.ledger")):
        lines = path.read_text(encoding="utf-8").splitlines()
        found[path.stem] = [json.loads(line) for line in lines]
    return found


def judge(
    events: dict[str, list[dict[str, Any]]], jobs: dict[str, int], forgiven: set[str]
) -> list[str]:
    """Violations. `jobs`: steps of each; `forgiven`: jobs whose success could not be known."""
    found = []
    for name, steps in jobs.items():
        for replica, seen in events.items():
            if not replica.startswith(f"{name}."):
                continue
            kinds = [e["event"] for e in seen]
            if "double" in kinds:
                found.append(f"{replica}: two attempts ran at the same time")
            if any(e.get("inherited") for e in seen):
                found.append(f"{replica}: inherited descriptors of Headway")
            attempts = [e["attempt"] for e in seen if e["event"] == "start"]
            if len(set(attempts)) < len(attempts):
                found.append(f"{replica}: attempt {attempts[-1]} was started twice")
        chief = events.get(f"{name}.worker-0", [])
        done = [e for e in chief if e["event"] == "done"]
        if not done:
            found.append(f"{name}: never succeeded")
        elif name not in forgiven and (len(done) > 1 or name in repeated(events, jobs)):
            found.append(f"{name}: ran again after it had succeeded")
        if any(e["weights"] != weights(steps) for e in done):
            found.append(f"{name}: weights differ from an undisturbed run")
    return found


def repeated(events: dict[str, list[dict[str, Any]]], jobs: dict[str, int]) -> list[str]:
    """Jobs that were started again after they had succeeded."""
    found = []
    for name in jobs:
        chief = events.get(f"{name}.worker-0", [])
        done = min((e["at"] for e in chief if e["event"] == "done"), default=inf)
        if any(e["event"] == "start" and e["at"] > done for e in chief):
            found.append(name)
    return found


def processes(trial: str, data: Path) -> list[int]:
    """Processes of a trial: by a variable that all of them inherit, or by their folder."""
    marks = (f"CHAOS_TRIAL={trial}".encode(), f"HEADWAY_DIR={data}/".encode())
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                words = (entry / "environ").read_bytes().split(b"\0")
                if any(w == marks[0] or w.startswith(marks[1]) for w in words):
                    found.append(int(entry.name))
    return [pid for pid in found if state(pid) != "Z"]


def state(pid: int) -> str:
    """R, S, T, Z …; "": there is no such process."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    return ""


def variable(pid: int, name: str) -> str:
    """A variable of its environment; "": it has none, or is gone."""
    with suppress(OSError):
        words = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
        return next((w.partition("=")[2] for w in words if w.startswith(f"{name}=")), "")
    return ""


def groups(data: Path) -> list[str]:
    """Control groups of the runs below a data folder, the deepest first."""
    runs = {p.name for p in (data / "runs").glob("*")}
    found = []
    for top, _, _ in os.walk("/sys/fs/cgroup", topdown=False):
        if "/headway/" in top and top.partition("/headway/")[2].split("/")[0] in runs:
            found.append(top)
    return found


def left(trial: str, data: Path) -> list[str]:
    """What is left of an ended run, after a moment."""
    end = monotonic() + GRACE
    while True:
        found = [f"process {pid}: {_words(pid)}" for pid in processes(trial, data)]
        found += [f"cgroup {name}" for name in groups(data)]
        if not found or monotonic() > end:
            return found
        sleep(0.05)


def clean(trial: str, data: Path) -> None:
    """Remove what a trial left, whatever that is."""
    end = monotonic() + GRACE
    while monotonic() < end:
        pids = processes(trial, data)
        for pid in pids:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if not pids:
            break
        sleep(0.02)
    for name in groups(data):
        with suppress(OSError):
            Path(name).rmdir()


def _words(pid: int) -> str:
    with suppress(OSError):
        text = (
            Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        )
        return " ".join(text.split())[:80]
    return "gone"
