"""E-C1: what it costs to save a training and to go on from there, early or late, for each model
(the thesis' Figures 3.2 and 3.3).
"""

import json
import tempfile
from pathlib import Path
from statistics import fmean, median, pstdev

from headway.bench.figure import Figure
from headway.errors import ConfigError
from headway.runtime.run import begin
from headway.spec.load import parse
from headway.spec.workload import Workload
from headway.trainings import MODELS

PARTS = tuple(i / 10 for i in range(1, 10))
STOPPED = "vae"
"""The model of Figure 3.2."""
NONSTOP = 2.0
MOST, SD = 5.0, 1.43
"""Seconds: what the thesis says that it costs at most, and how much that varies."""


def bench_checkpoints(rate: float) -> list[Figure]:
    """One model at each tenth of its steps, and all of them at 30 and 70 %, against nonstop."""
    del rate
    nonstop = median(_took(STOPPED, NONSTOP) for _ in range(3))
    costs = [_took(STOPPED, part) - nonstop for part in PARTS]
    figures = [Figure(f"{STOPPED}: nonstop", nonstop, "s")]
    figures += [
        Figure(
            f"{STOPPED}: saved and resumed at {p:.0%}",
            c,
            "s more",
            MOST,
            x=100 * p,
            axis="% of the steps done",
            series=STOPPED,
            title="Saved and resumed once",
        )
        for p, c in zip(PARTS, costs, strict=True)
    ]
    figures.append(Figure("standard deviation over the parts", pstdev(costs), "s", SD))
    for model in MODELS:
        if model != STOPPED:
            whole = _took(model, NONSTOP)
            cost = fmean(_took(model, part) for part in (0.3, 0.7)) - whole
            figures.append(Figure(f"{model}: at 30 and 70 %, mean", cost, "s more", MOST))
    return figures


def _took(model: str, part: float) -> float:
    """Seconds from start to end of a training that is interrupted after that part."""
    job = {"name": model, "model": model, "profile": {"work": 9, "steps": 500}}
    head = {"apiVersion": "headway.dev/v1alpha1", "kind": "Workload"}
    text = json.dumps({**head, "nodes": [{"cpu": 1}], "jobs": [job]})
    workload = parse(text, Workload, where="benchmark")
    with tempfile.TemporaryDirectory() as data:
        policy = f"interrupted:at={part:g},interval=0.1"
        run = begin(workload, Path(data) / "w.yaml", policy, data=Path(data))
        result = run.go()
        starts = list((run.folder.path / "jobs" / model / "main-0").glob("pid.*"))
    if run.interrupted:
        raise KeyboardInterrupt
    if len(starts) != 1 + (part < 1):
        raise ConfigError(f"{model} was started {len(starts)} times", where="benchmark checkpoints")
    return result.mean_completion_s
