"""Hands for real runs: small scripts as jobs, and what is left behind of them."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import yaml
from patience import PATIENCE, end_of

from headway.backend import procfs

SCRIPTS = {
    "trains": """
        import time, headway
        run = headway.attach(total_steps=20)
        for step in range(1, 21):
            end = time.process_time() + 0.02
            while time.process_time() < end: pass
            run.report(step, loss=1 / step)
        print("done")
    """,
    "waits": "import time; time.sleep(600)",
}


def script(folder, text):
    """A script as the command that runs it."""
    path = Path(folder) / f"script-{abs(hash(text))}.py"
    path.write_text(textwrap.dedent(SCRIPTS.get(text, text)))
    return [sys.executable, str(path)]


def job(name, command, *, at=0.0, **spec):
    return {"name": name, "at": at, "spec": {"tasks": [{"command": command}], **spec}}


def workload(folder, *jobs, **more):
    path = Path(folder) / "workload.yaml"
    head = {"apiVersion": "headway.dev/v1alpha1", "kind": "Workload"}
    path.write_text(yaml.safe_dump({**head, **more, "jobs": list(jobs)}))
    return path


def note(name, value):
    """A figure for `scripts/evidence`."""
    path = os.environ.get("HEADWAY_FIGURES")
    if path:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"name": name, "value": value}) + "\n")


def result(data, run="latest"):
    return json.loads((data / "runs" / run / "result.json").read_text())[0]


def processes(data):
    """Processes that carry the mark of a run below this data folder."""
    pids = [int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit()]
    where = {pid: procfs.environment(pid).get("HEADWAY_DIR", "") for pid in pids}
    return [pid for pid, folder in where.items() if folder.startswith(str(data))]


def groups(data):
    """Control groups of the runs below this data folder."""
    runs = {p.name for p in (data / "runs").iterdir()}
    return [
        top
        for top, _, _ in os.walk("/sys/fs/cgroup")
        if "/headway/" in top and top.partition("/headway/")[2].split("/")[0] in runs
    ]


def cgroups(pid):
    """Where a process is, less what our own test run moves it by."""
    text = Path(f"/proc/{pid}/cgroup").read_text()
    return text.replace("/headway-rest", "")


def headway(*words, data, env=None, check=True, patience=PATIENCE):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    done = end_of(start(*words, data=data, env=env, **pipes), patience)
    assert not check or done.returncode == 0, done.stderr + done.stdout
    return done


def start(*words, data, env=None, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "headway", *map(str, words)],
        env={**os.environ, "HEADWAY_DATA": str(data), **(env or {})},
        **{"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **options},
    )


def log(data, name):
    found = list(data.glob(f"runs/2*/jobs/{name}/main-0/out.log"))
    return found[0].read_text() if found else ""


def state(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "R"  # gone: not stopped
