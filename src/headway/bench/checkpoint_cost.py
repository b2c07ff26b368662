"""E-C1: the cost of saving and resuming a training job, early or late, for each model (Figures 3.2
and 3.3 of the thesis).
"""

import tempfile
from pathlib import Path
from statistics import fmean, median, pstdev

from headway.bench.figure import Figure
from headway.errors import ConfigError
from headway.runtime.start import begin
from headway.spec.workload import make_workload
from headway.trainings import MODELS

FRACTIONS = tuple(i / 10 for i in range(1, 10))
STOPPED = "vae"
"""The model of Figure 3.2."""
NONSTOP = 2.0
"""A fraction of the steps that is never reached."""
MOST, SD = 5.0, 1.43
"""The thesis' largest cost and its standard deviation, in seconds."""


def bench_checkpoints() -> list[Figure]:
    """One model at each tenth of its steps and all models at 30 and 70 %, relative to nonstop."""
    nonstop = median(_completion(STOPPED, NONSTOP) for _ in range(3))
    costs = [_completion(STOPPED, part) - nonstop for part in FRACTIONS]
    figures = [Figure(f"{STOPPED}: nonstop", nonstop, "s")]
    drawn = {"axis": "% of the steps done", "series": STOPPED, "title": "Saved and resumed once"}
    for p, cost in zip(FRACTIONS, costs, strict=True):
        name = f"{STOPPED}: saved and resumed at {p:.0%}"
        figures.append(Figure(name, cost, "s more", MOST, x=100 * p, **drawn))
    figures.append(Figure("standard deviation over the tenths", pstdev(costs), "s", SD))
    for model in MODELS:
        if model != STOPPED:
            whole = _completion(model, NONSTOP)
            cost = fmean(_completion(model, part) for part in (0.3, 0.7)) - whole
            figures.append(Figure(f"{model}: at 30 and 70 %, mean", cost, "s more", MOST))
    return figures


def _completion(model: str, part: float) -> float:
    """Seconds from start to end of a job that is interrupted after this fraction of its steps."""
    job = {"name": model, "model": model, "profile": {"work": 9, "steps": 500}}
    workload = make_workload(nodes=[{"cpu": 1}], jobs=[job])
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
