"""Generated arrivals, written out: the same seed gives the same jobs."""

from collections.abc import Sequence
from itertools import accumulate
from random import Random
from statistics import fmean
from typing import Any

import yaml

from headway.core.estimate.step_rate import SERVER, predict
from headway.core.model.node import Node
from headway.spec.catalogue import models_of
from headway.spec.manifest import TrainingJobSpec
from headway.spec.workload import Arrivals, Drawn, DrawnTask, JobEntry, Profile, Workload


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
    times = _times(arrivals, count, dice) if arrivals.load is None else [0.0] * count
    entries = []
    for i, at in enumerate(times):
        if arrivals.profile is not None:
            entry = _job(arrivals.profile, arrivals.checkpoint, dice)
        elif arrivals.jobs is None:
            entry = {"model": models[i]}  # each of them once
        else:
            entry = {"model": dice.choice(models)}
        name = f"job-{i + 1:0{len(str(count))}d}"
        entries.append(JobEntry.model_validate({"name": name, "at": at, **entry}))
    if arrivals.load is None:
        return entries
    gap = fmean(occupancy(e, workload.to_nodes()) for e in entries) / arrivals.load
    times = _poisson(gap, count, dice)
    return [e.model_copy(update={"at": at}) for e, at in zip(entries, times, strict=True)]


def _times(arrivals: Arrivals, count: int, dice: Random) -> list[float]:
    if arrivals.uniform is not None:
        drawn = [round(dice.uniform(*arrivals.uniform), 3) for _ in range(count)]
        return drawn if arrivals.jobs is None else sorted(drawn)
    if arrivals.every_s is not None:
        return [i * arrivals.every_s for i in range(count)]
    return _poisson(arrivals.poisson_s or 0.0, count, dice)


def _poisson(gap: float, count: int, dice: Random) -> list[float]:
    return [round(t, 3) for t in accumulate(dice.expovariate(1 / gap) for _ in range(count))]


def _job(drawn: Drawn, checkpoint: str, dice: Random) -> dict[str, Any]:
    given: dict[str, Any] = {"profile": _profile(drawn, dice)}
    if checkpoint != "none" or drawn.tasks:
        tasks = {"tasks": [_task(t, dice) for t in drawn.tasks]} if drawn.tasks else {}
        given["spec"] = TrainingJobSpec.model_validate(
            {"checkpoint": {"mode": checkpoint}, **tasks}
        )
    return given


def _profile(drawn: Drawn, dice: Random) -> Profile:
    if drawn.speed is not None:
        speed = dice.choice(drawn.speed) if isinstance(drawn.speed, tuple) else drawn.speed
        many = dice.choice(drawn.steps) if isinstance(drawn.steps, tuple) else drawn.steps
        steps = max(1, round(many * dice.uniform(1 - drawn.vary, 1 + drawn.vary)))
        plain = {"steps": steps, "speed": speed, "demand": dice.choice(drawn.demand)}
        return Profile.model_validate({**plain, "work": speed.work * steps, "curve": drawn.curve})
    work = dice.choice(drawn.work or ()) * dice.uniform(1 - drawn.vary, 1 + drawn.vary)
    return Profile(
        work=round(work, 3),
        demand=dice.choice(drawn.demand),
        steps=dice.choice(drawn.steps) if isinstance(drawn.steps, tuple) else drawn.steps,
        curve=drawn.curve,
    )


def _task(drawn: DrawnTask, dice: Random) -> dict[str, Any]:
    replicas = dice.choice(drawn.replicas)
    least = min(replicas, dice.choice(drawn.min)) if drawn.min else replicas
    most = max(replicas, dice.choice(drawn.max)) if drawn.max else replicas
    if drawn.max_times is not None:
        most = max(most, int(replicas * drawn.max_times))
    asked = {k: dice.choice(getattr(drawn, k)) for k in ("cpu", "memory", "gpu")}
    return {
        "name": drawn.name,
        "replicas": replicas,
        "minReplicas": least,
        "maxReplicas": most,
        "resources": {
            "requests": {k: v for k, v in asked.items() if v},
            "limits": {} if drawn.limit is None else {"cpu": drawn.limit},
        },
    }


def occupancy(job: JobEntry, nodes: Sequence[Node]) -> float:
    """Seconds for which it would fill the whole cluster, of whatever it takes most: as it asks to
    be started, in one place, on nodes of mean speed.
    """
    assert job.profile is not None  # noqa: S101 - a load needs a profile
    spec, profile = job.spec or TrainingJobSpec(), job.profile
    counts = {t.name: t.replicas for t in spec.tasks}
    servers = counts.get(SERVER, 0)
    workers = sum(counts.values()) - servers
    pace = profile.demand * fmean(n.speed for n in nodes)
    if profile.speed is not None:
        lasts = profile.steps / predict(profile.speed.to_core(), workers, servers, pace)
    else:
        lasts = profile.work / (workers * pace)
    asked = dict.fromkeys(("cpu", "memory", "gpu"), 0.0)
    for task in spec.tasks:
        for k in asked:
            asked[k] += task.replicas * getattr(task.resources.requests, k)
    asked["cpu"] = asked["cpu"] or workers * profile.demand
    there = {k: sum(getattr(n.capacity, k) for n in nodes) for k in asked}
    part: float = max(asked[k] / there[k] for k in asked if asked[k] and there[k])
    return lasts * part
