"""Generated arrivals, written out: the same seed gives the same jobs."""

from itertools import accumulate
from random import Random
from typing import Any

import yaml

from headway.spec.manifest import Checkpoint, TrainingJobSpec
from headway.spec.models import models_of
from headway.spec.workload import Arrivals, Drawn, JobEntry, Profile, Workload


def expand(workload: Workload, seed: int | None = None) -> Workload:
    """The workload with every job listed, in order of arrival, and no arrivals left to draw."""
    seed = workload.seed if seed is None else seed
    jobs = [*workload.jobs, *_draw(workload, Random(f"arrivals/{seed}"))]
    jobs.sort(key=lambda job: job.at)  # stable: ties stay in the order of the file
    return workload.model_copy(update={"jobs": tuple(jobs), "arrivals": None, "seed": seed})


def written(workload: Workload) -> str:
    """As a file of its own."""
    return yaml.safe_dump(plain(workload), sort_keys=False, default_flow_style=None, width=100)


def plain(workload: Workload) -> dict[str, Any]:
    """What was given, and nothing that was not."""
    found: dict[str, Any] = workload.model_dump(
        mode="json", by_alias=True, exclude_unset=True, exclude_none=True
    )
    return found


def _draw(workload: Workload, dice: Random) -> list[JobEntry]:
    arrivals = workload.arrivals
    if arrivals is None:
        return []
    models = list(models_of(workload)) if arrivals.models == "any" else list(arrivals.models or ())
    count = arrivals.jobs or len(models)
    times = _times(arrivals, count, dice)
    entries = []
    for i, at in enumerate(times):
        spec = TrainingJobSpec(checkpoint=Checkpoint(mode=arrivals.checkpoint))
        if arrivals.profile is not None:
            entry: dict[str, Any] = {"profile": _profile(arrivals.profile, dice)}
        elif arrivals.jobs is None:
            entry = {"model": models[i]}  # each of them once
        else:
            entry = {"model": dice.choice(models)}
        name = f"job-{i + 1:0{len(str(count))}d}"
        given = {"name": name, "at": at, **entry}
        if arrivals.checkpoint != "none" and "profile" in entry:
            given["spec"] = spec
        entries.append(JobEntry.model_validate(given))
    return entries


def _times(arrivals: Arrivals, count: int, dice: Random) -> list[float]:
    if arrivals.uniform is not None:
        drawn = [round(dice.uniform(*arrivals.uniform), 3) for _ in range(count)]
        return drawn if arrivals.jobs is None else sorted(drawn)
    if arrivals.every_s is not None:
        return [i * arrivals.every_s for i in range(count)]
    gap = arrivals.poisson_s or 0.0
    return [round(t, 3) for t in accumulate(dice.expovariate(1 / gap) for _ in range(count))]


def _profile(drawn: Drawn, dice: Random) -> Profile:
    work = dice.choice(drawn.work) * dice.uniform(1 - drawn.vary, 1 + drawn.vary)
    return Profile(
        work=round(work, 3),
        demand=dice.choice(drawn.demand),
        steps=drawn.steps,
        curve=drawn.curve,
    )
