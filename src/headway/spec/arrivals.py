"""Generate the arrivals of a workload: the same seed gives the same jobs."""

from collections.abc import Sequence
from itertools import accumulate
from random import Random
from statistics import fmean
from typing import Any

import yaml
from pydantic import ValidationError

from headway.core.estimate.step_rate import SERVER, predict
from headway.core.model.node import Node
from headway.errors import ConfigError
from headway.spec.catalogue import models_of
from headway.spec.generated_jobs import Arrivals, JobDistribution, TaskDistribution
from headway.spec.manifest import TrainingJobSpec
from headway.spec.profile import Profile
from headway.spec.validation_errors import format_location
from headway.spec.workload import JobEntry, Workload


def expand(workload: Workload, seed: int | None = None, *, where: str = "workload") -> Workload:
    """Return the workload with its generated jobs listed, in order of arrival. `where`: its file,
    for messages.
    """
    seed = workload.seed if seed is None else seed
    try:
        jobs = [*workload.jobs, *_generate(workload, Random(f"arrivals/{seed}"))]
    except ValidationError as error:
        found = error.errors(include_url=False)[0]
        place = format_location(found["loc"])
        raise ConfigError(
            f"a generated job is invalid: {place and f'{place}: '}{found['msg']}",
            where=f"{where}, arrivals.profile",
            hint="every combination of the listed values must be valid",
        ) from None
    taken = {job.name for job in workload.jobs}
    for job in jobs[len(workload.jobs) :]:
        if job.name in taken:
            raise ConfigError(
                f"a listed job has the name {job.name!r} of a generated one",
                where=f"{where}, jobs",
                hint="rename it",
            )
    jobs.sort(key=lambda job: job.at)  # stable: jobs of the same time keep the order of the file
    return workload.model_copy(update={"jobs": tuple(jobs), "arrivals": None, "seed": seed})


def to_yaml(workload: Workload) -> str:
    return yaml.safe_dump(to_plain(workload), sort_keys=False, default_flow_style=None, width=100)


def to_plain(workload: Workload) -> dict[str, Any]:
    """Return the workload as plain data, without defaults."""
    return workload.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)


def _generate(workload: Workload, rng: Random) -> list[JobEntry]:
    arrivals = workload.arrivals
    if arrivals is None:
        return []
    models = list(models_of(workload)) if arrivals.models == "any" else list(arrivals.models or ())
    count = arrivals.jobs or len(models)
    times = _times(arrivals, count, rng) if arrivals.load is None else [0.0] * count
    entries = []
    for i, at in enumerate(times):
        if arrivals.profile is not None:
            entry = _job(arrivals.profile, arrivals.checkpoint, rng)
        elif arrivals.jobs is None:
            entry = {"model": models[i]}  # each model once
        else:
            entry = {"model": rng.choice(models)}
        if arrivals.knows != ("all",):
            entry["knows"] = arrivals.knows[i % len(arrivals.knows)]
        name = f"job-{i + 1:0{len(str(count))}d}"
        entries.append(JobEntry.model_validate({"name": name, "at": at, **entry}))
    if arrivals.load is None:
        return entries
    gap = fmean(occupancy(e, workload.to_nodes()) for e in entries) / arrivals.load
    times = _poisson(gap, count, rng)
    return [e.model_copy(update={"at": at}) for e, at in zip(entries, times, strict=True)]


def _times(arrivals: Arrivals, count: int, rng: Random) -> list[float]:
    if arrivals.uniform is not None:
        times = [round(rng.uniform(*arrivals.uniform), 3) for _ in range(count)]
        return times if arrivals.jobs is None else sorted(times)
    if arrivals.every_s is not None:
        return [i * arrivals.every_s for i in range(count)]
    return _poisson(arrivals.poisson_s or 0.0, count, rng)


def _poisson(gap: float, count: int, rng: Random) -> list[float]:
    return [round(t, 3) for t in accumulate(rng.expovariate(1 / gap) for _ in range(count))]


def _job(options: JobDistribution, checkpoint: str, rng: Random) -> dict[str, Any]:
    given: dict[str, Any] = {"profile": _profile(options, rng)}
    if checkpoint != "none" or options.tasks:
        tasks = {"tasks": [_task(t, rng) for t in options.tasks]} if options.tasks else {}
        given["spec"] = TrainingJobSpec.model_validate(
            {"checkpoint": {"mode": checkpoint}, **tasks}
        )
    return given


def _profile(options: JobDistribution, rng: Random) -> Profile:
    def choose(values: Any) -> Any:
        return rng.choice(values) if isinstance(values, tuple) else values

    def vary(value: float) -> float:
        return value * rng.uniform(1 - options.vary, 1 + options.vary)

    if options.speed is None:
        work, demand = round(vary(choose(options.work)), 3), choose(options.demand)
        return Profile(work=work, demand=demand, steps=choose(options.steps), curve=options.curve)
    speed = choose(options.speed)
    steps = max(1, round(vary(choose(options.steps))))
    work, demand = speed.work * steps, choose(options.demand)
    return Profile(work=work, demand=demand, steps=steps, speed=speed, curve=options.curve)


def _task(options: TaskDistribution, rng: Random) -> dict[str, Any]:
    replicas = rng.choice(options.replicas)
    least = min(replicas, rng.choice(options.min)) if options.min else replicas
    most = max(replicas, rng.choice(options.max)) if options.max else replicas
    if options.max_times is not None:
        most = max(most, int(replicas * options.max_times))
    requested = {k: rng.choice(getattr(options, k)) for k in ("cpu", "memory", "gpu")}
    return {
        "name": options.name,
        "replicas": replicas,
        "minReplicas": least,
        "maxReplicas": most,
        "resources": {
            "requests": {k: v for k, v in requested.items() if v},
            "limits": {} if options.limit is None else {"cpu": options.limit},
        },
    }


def occupancy(job: JobEntry, nodes: Sequence[Node]) -> float:
    """Return the seconds for which the job fills the whole cluster in its dominant resource, run
    with the requested replicas on nodes of mean speed.
    """
    assert job.profile is not None  # noqa: S101 - checked by Arrivals
    spec, profile = job.spec or TrainingJobSpec(), job.profile
    counts = {t.name: t.replicas for t in spec.tasks}
    servers = counts.get(SERVER, 0)
    workers = sum(counts.values()) - servers
    pace = profile.demand * fmean(n.speed for n in nodes)
    if profile.speed is not None:
        duration = profile.steps / predict(profile.speed.to_core(), workers, servers, pace)
    else:
        duration = profile.work / (workers * pace)
    requested: dict[str, float] = {
        k: sum(t.replicas * getattr(t.resources.requests, k) for t in spec.tasks)
        for k in ("cpu", "memory", "gpu")
    }
    requested["cpu"] = requested["cpu"] or workers * profile.demand
    capacity = {k: sum(getattr(n.capacity, k) for n in nodes) for k in requested}
    fraction: float = max(
        requested[k] / capacity[k] for k in requested if requested[k] and capacity[k]
    )
    return duration * fraction
