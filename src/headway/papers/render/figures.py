"""Figures of reproduced experiments as plain data, for `--json` and for tables."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from headway.papers.claims import JudgedClaim
from headway.papers.experiments import Experiment, Load
from headway.papers.measures import NO_CHANGE, change, count_better, job_changes, value
from headway.papers.runner import Reproduction
from headway.runtime.result import Result, over_seeds
from headway.runtime.result import against as compare


def to_json(one: Reproduction) -> dict[str, Any]:
    """One object for each experiment."""
    e, results = one.experiment, one.runs.results
    arms = {load: [arm_figures(one, load, arm) for arm in e.arms] for load in results}
    figures: dict[str, Any] = {"arms": arms.get(None)}
    if e.distributed:
        loads = [{"load": load, "arms": found} for load, found in arms.items()]
        figures = {"resource": e.resource, "loads": loads}
    return {
        "experiment": e.id,
        "about": one.publication.about,
        "seeds": one.runs.seeds,
        "jobs": next(iter(results.values()))[e.baseline][0].jobs,
        "baseline": e.baseline,
        **figures,
        "published": [_claim(j, distributed=e.distributed) for j in one.judged],
        "misses": len(one.misses),
    }


def _claim(j: JudgedClaim, *, distributed: bool) -> dict[str, Any]:
    claim, ours = j.claim, over_seeds(j.ours)
    figures: dict[str, Any] = {
        "unit": claim.unit,
        "published": claim.published,
        "ours": ours,
        "given": claim.given,
    }
    if distributed:
        figures = {
            "against": j.against,
            "load": j.load,
            "published_percent": claim.published,
            "ours_percent": ours,
            "without_deadlocks_percent": over_seeds(j.without_deadlock),
        }
    return {
        "what": claim.what,
        "arm": " / ".join(j.arms),
        **figures,
        "agrees_if": claim.agrees.describe(claim.unit),
        "verdict": j.verdict,
        "counted": j.counted,
        "open": claim.open,
        "why": j.why,
    }


def arm_figures(one: Reproduction, load: Load, arm: str, against: str = "") -> dict[str, Any]:
    """Means over the seeds; a change in % is the mean of the changes of each seed. `against`:
    another arm than the baseline.
    """
    e, arms = one.experiment, one.runs.results[load]
    ours, base = arms[arm], arms[against or e.baseline]
    figures: dict[str, Any] = {"arm": arm}
    for name, field in _fields(e).items():
        spread = over_seeds([value(r, field) for r in ours]) or {}
        by = [change(value(a, field), value(b, field)) for a, b in zip(ours, base, strict=True)]
        figures[name] = {"mean": spread["mean"], "sd": spread["sd"], "change_percent": fmean(by)}
    if e.distributed:
        quality = [r.mean_time_to_quality_s for r in ours if r.mean_time_to_quality_s is not None]
        figures["to_quality_s"] = fmean(quality) if quality else None
        figures["deadlocks"] = sum(r.deadlocks for r in ours)
        return figures
    run = one.observed[arm]
    cpu = {node: run.mean_cpu(node) for node in run.nodes}
    seen = {"growth_efficiency": run.mean_growth, "cpu_by_node": cpu}
    return figures | _job_figures(ours, base) | seen


def _fields(experiment: Experiment) -> dict[str, str]:
    """Names of figures, and the fields of a result that they come from."""
    if not experiment.distributed:
        times = ("mean_completion_s", "median_completion_s", "p95_completion_s", "makespan_s")
        return {name: name for name in times}
    return {
        "waiting_s": "mean_waiting_s",
        "running_s": "mean_running_s",
        "elapsed_s": "mean_completion_s",
        "makespan_s": "makespan_s",
        "allocated": f"{experiment.resource}_allocated",
        "useful": f"{experiment.resource}_useful",
    }


def _job_figures(ours: Sequence[Result], base: Sequence[Result]) -> dict[str, float]:
    changes = [job_changes(a, b) for a, b in zip(ours, base, strict=True)]
    return {
        "better": fmean(map(count_better, changes)),
        "worse": fmean(sum(c > NO_CHANGE for c in seed) for seed in changes),
        "losers": fmean(compare(a, b).slower for a, b in zip(ours, base, strict=True)),
        "best_change_percent": min(map(min, changes)),
        "worst_change_percent": max(map(max, changes)),
        "moves": fmean(a.moves for a in ours),
    }
