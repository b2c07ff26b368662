"""The lines of `evidence/`: which of them speak of the current code, and what the pages claim."""

import json
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CORE, POLICY = "src/headway/core", "src/headway/policy"
BACKEND, RUNTIME = "src/headway/backend", "src/headway/runtime"
LOCAL = (
    "src/headway/controller",
    f"{BACKEND}/live.py",
    f"{BACKEND}/procfs.py",
    f"{BACKEND}/local",
    RUNTIME,
)
SUBJECT: dict[str, tuple[str, ...]] = {
    "sim": (CORE, POLICY, "src/headway/sim"),
    "decide": (CORE, POLICY),
    "promises": (CORE, POLICY, "src/headway/sim"),
    "gangs": (CORE, POLICY, "src/headway/sim"),
    "traces": (CORE, POLICY, "src/headway/sim"),
    "enforcement": (f"{BACKEND}/local/enforcement", f"{BACKEND}/procfs.py"),
    "reaction": LOCAL,
    "overhead": (*LOCAL, CORE, POLICY),
    "real": (*LOCAL, CORE, POLICY),
    "api": ("src/headway/server", "src/headway/client.py"),
    "server": ("src/headway/server", "src/headway/client.py", "src/headway/runtime/submissions.py"),
    "submissions": (*LOCAL, CORE, POLICY, "src/headway/server", "src/headway/client.py"),
    "crash": LOCAL,
    "crash-moves": LOCAL,
    "moves": (*LOCAL, "src/headway/sdk"),
    "chaos": (*LOCAL, f"{BACKEND}/docker", "src/headway/sdk"),
    "server-kills": (*LOCAL, "src/headway/server", "src/headway/client.py"),
    "soak": (*LOCAL, CORE, POLICY, "src/headway/metrics"),
    "checkpoints": ("src/headway/sdk", "src/headway/trainings"),
    "machine": (
        "src/headway/machine.py",
        "src/headway/trainings/counter.py",
        "src/headway/trainings/torch_counter",
        f"{BACKEND}/local/enforcement",
    ),
    "docker": (f"{BACKEND}/docker", CORE, f"{POLICY}/share/flowcon.py"),
    "flowcon": (f"{BACKEND}/docker", CORE, f"{POLICY}/share/flowcon.py"),
    "specon": (*LOCAL, CORE, POLICY),
    "scheduler": (f"{POLICY}/placement/even.py", f"{POLICY}/placement/spread.py"),
}
"""The code that each measurement is about: a claim is out of date when it has changed."""
DRAWN = ("promises", "gangs")
"""Simulations, with seeds drawn from the hash of the measured commit."""
POOL = (CORE, POLICY)
"""Draws are pooled while this code is the same."""
MENTION = re.compile(r"evidence/([a-z][\w-]*)\.jsonl(?:\s+at\s+([0-9a-f]{7,40}))?")
MISSED = re.compile(r",\s+missed\b")
LATER = re.compile(r",\s+before\s+later\s+changes\b")


def lines(name: str, root: Path = ROOT) -> list[dict[str, Any]]:
    path = root / "evidence" / f"{name}.jsonl"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [json.loads(line) for line in text.splitlines()]


def append(name: str, line: dict[str, Any]) -> None:
    with (ROOT / "evidence" / f"{name}.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def git(*words: str, root: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = ["git", "-C", str(root), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def commit() -> str:
    return git("rev-parse", "--short", "HEAD").stdout.strip()


def unchanged(commit: str, paths: Iterable[str], root: Path = ROOT) -> bool:
    """Return whether these paths are in the working tree what they were at the commit."""
    return git("diff", "--quiet", commit, "--", *paths, root=root).returncode == 0


def dirty(root: Path = ROOT) -> list[str]:
    """Return what differs from the commit. Lines of evidence are written during a measurement."""
    found = git("status", "--porcelain", root=root).stdout.splitlines()
    return [line for line in found if not line[3:].startswith("evidence/")]


def pooled(draws: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return each figure that has a bar, with its mean over the draws in which it occurs."""
    found: dict[str, list[dict[str, Any]]] = {}
    for figure in (figure for draw in draws for figure in draw if figure["bar"] is not None):
        found.setdefault(figure["name"], []).append(figure)
    pool = []
    for name, each in found.items():
        value, bar = fmean(f["value"] for f in each), each[-1]["bar"]
        pool.append({"name": name, "value": value, "bar": bar, "pass": value <= bar})
    return pool


def problems(text: str, root: Path = ROOT) -> list[str]:
    """Return what is wrong with the claims of a page. A claim is `evidence/NAME.jsonl at COMMIT`.

    It says `, missed` if that line missed a bar, and `, before later changes` if the code that it
    is about has changed since.
    """
    found = []
    for claim in MENTION.finditer(text):
        name, commit = claim.groups()
        rest = text[claim.end() : claim.end() + 60].partition(")")[0]
        where = f"evidence/{name}.jsonl at {commit}"
        if commit is None:
            found.append(f"evidence/{name}.jsonl: does not say at which commit")
            continue
        here = [line for line in lines(name, root) if line["commit"] == commit]
        if not here or name not in SUBJECT:
            found.append(f"{where}: no such line, or {name} is not in SUBJECT")
            continue
        for flag, says, true in (
            ("missed", bool(MISSED.search(rest)), not here[-1]["pass"]),
            (
                "before later changes",
                bool(LATER.search(rest)),
                not unchanged(commit, SUBJECT[name], root),
            ),
        ):
            if says != true:
                found.append(f"{where}: {'add' if true else 'remove'} `, {flag}`")
    return found
