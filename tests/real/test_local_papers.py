"""SpeCon's first experiment (E-S1), scaled, with real processes on four virtual nodes: as placed by
kube-scheduler, with FlowCon's ceilings, and with SpeCon's migrations.

`make evidence NAME=specon` runs all twenty jobs, five times with and without the ceilings.
"""

import json
import os
import sys
from pathlib import Path
from statistics import median

import pytest
from local import workload

from headway.bench.fidelity import times
from headway.core.model.decision import SetShare
from headway.demo import measure_speed, run_once
from headway.report.run_timeline import read_timeline
from headway.runtime import journal
from headway.spec.catalogue import pool
from headway.spec.runnable import POOLS

ROUNDS = int(os.environ.get("HEADWAY_SPECON_ROUNDS", "1"))
"""Runs in each way."""
SCALE = float(os.environ.get("HEADWAY_SPECON_SCALE", "60"))
"""Seconds of the paper to one of ours."""
JOBS = 20 if ROUNDS > 1 else 6
CORES = 0.5
"""Of each node."""
REQUEST = {"cpu": 0.006 * CORES, "memory": f"{0.006 * 64:g}Gi"}
"""What kube-scheduler counts for a pod without requests on a worker of the paper, as a part of the
worker: nodes with two and with three pods tie."""
BATCHES = 4
"""Of each step."""
POLICIES = {
    "spread": "spread",
    "flowcon": f"spread+flowcon:paper,interval={20 / SCALE:g},threshold={0.01 * SCALE:g}",
    "specon": f"specon:paper,interval={30 / SCALE:g},threshold=0.01",
}
WAYS = os.environ.get("HEADWAY_SPECON_WAYS", "spread flowcon specon").split()


def steps():
    """As many as take the time of the paper, scaled, at the speed of this machine."""
    updates = pool("specon")["vae"].work * CORES / SCALE * measure_speed().updates["vae"]
    return round(updates / BATCHES)


def jobs(steps):
    """As the catalogue has them: one VAE every 50 s, each of which can use 80 % of a node."""
    words = ["--steps", steps, "--batches", BATCHES]
    words += ["--demand", pool("specon")["vae"].demand * CORES]
    command = [sys.executable, "-m", "headway.trainings", "vae", *map(str, words)]
    env, resources = dict.fromkeys(POOLS, "1"), {"requests": REQUEST}
    task = {"command": command, "env": env, "resources": resources}
    spec = {"tasks": [task], "checkpoint": {"mode": "sdk"}}
    return [{"name": f"vae-{i}", "at": 50 * i / SCALE, "spec": spec} for i in range(JOBS)]


def run(path, policy, data, steps):
    """One run to the end of all jobs; its times, moves and changes of ceilings."""
    result, made = run_once(path, policy, data)
    assert [(j.outcome, j.steps) for j in result.per_job] == [("succeeded", steps)] * JOBS
    lines = journal.read(made.folder.journal)
    ceilings = [
        d for line in lines for d in line["plan"].decisions
        if isinstance(d, SetShare) and d.limit is not None
    ]  # fmt: skip
    found = times(result.per_job, read_timeline(made.folder))
    return {
        "makespan_s": round(found["makespan"], 2),
        "mean_s": round(found["mean completion"], 2),
        "cpu_s": round(found["makespan delivered"], 2),
        "moves": result.moves,
        "ceilings": len(ceilings),
    }


@pytest.mark.alone
@pytest.mark.long
def test_the_first_experiment_of_specon_with_ceilings_and_with_migrations(tmp_path):
    """In turns, each round beginning with another."""
    each = steps()
    path = workload(tmp_path, *jobs(each), nodes=[{"name": "node", "cpu": CORES, "count": 4}])
    found = {name: [] for name in WAYS}
    for i in range(ROUNDS):
        first = i % len(WAYS)
        for name in WAYS[first:] + WAYS[:first]:
            found[name].append(run(path, POLICIES[name], tmp_path, each))
    base = found["spread"]
    assert sum(r["ceilings"] + r["moves"] for r in base) == 0
    if ROUNDS > 1:  # few and short jobs may end before one of them has converged
        assert sum(r["ceilings"] for r in found["flowcon"]) > 0
    assert sum(r["moves"] for r in found["flowcon"]) == 0
    if figures := os.environ.get("HEADWAY_FIGURES"):
        changes = {
            name: {
                key: [round(a[key] / b[key] - 1, 4) for a, b in zip(runs, base, strict=True)]
                for key in ("makespan_s", "mean_s", "cpu_s")
            }
            for name, runs in found.items()
            if name != "spread"
        }
        middle = median(r["makespan_s"] for r in base)
        noise = [round(r["makespan_s"] / middle - 1, 4) for r in base]
        line = {
            "scale": SCALE,
            "steps": each,
            "ways": POLICIES,
            "runs": found,
            "changes": changes,
            "noise": noise,
        }
        with Path(figures).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
