"""Containers that somebody else started, as jobs."""

from collections.abc import Iterable, Sequence

from headway.backend.docker import container
from headway.backend.docker.container import JOB, RUN, ContainerState
from headway.backend.docker.engine import Engine
from headway.core.model.job import JobSpec
from headway.core.model.units import JobId, NodeId, Seconds
from headway.errors import ConfigError, Declined
from headway.spec.runnable import LiveJob


def by_name(engines: Sequence[Engine], names: Sequence[str]) -> list[LiveJob]:
    return _jobs([_find(engines, name) for name in dict.fromkeys(names)])


def by_label(engines: Sequence[Engine], label: str) -> list[LiveJob]:
    """Those that run and carry it; `label`: KEY or KEY=VALUE."""
    found = []
    for engine in engines:
        for each in engine.client.get("/containers/json", filters={"label": [label]}):
            seen = container.found(engine.client.get(f"/containers/{each['Id']}/json"))
            if RUN not in seen.labels:
                found.append((engine, seen))
    if not found:
        raise ConfigError(
            f"no running container has the label {label!r}",
            where=", ".join(e.client.url for e in engines),
            hint=f"docker run --label {label} …, or `labels:` of a compose service",
        )
    return _jobs(found)


def _find(engines: Sequence[Engine], name: str) -> tuple[Engine, ContainerState]:
    for engine in engines:
        try:
            seen = container.found(engine.client.get(f"/containers/{name}/json"))
        except Declined as error:
            if error.status == 404:
                continue
            raise
        if not seen.running:
            raise ConfigError(f"container {name!r} is not running: it is {seen.state}")
        return engine, seen
    raise ConfigError(
        f"no container is called {name!r}",
        where=", ".join(e.client.url for e in engines),
        hint="look it up with docker ps; a process is adopted by its number",
    )


def _jobs(found: Iterable[tuple[Engine, ContainerState]]) -> list[LiveJob]:
    jobs: dict[str, LiveJob] = {}
    for engine, seen in found:
        made = to_job(engine.name, seen, jobs)
        jobs[made.id] = made
    return list(jobs.values())


def to_job(node: NodeId, seen: ContainerState, taken: Iterable[str], at: Seconds = 0.0) -> LiveJob:
    """Named by its label, else as the container is."""
    name = _clean(seen.labels.get(JOB) or seen.name)
    if name in taken:
        name = _clean(seen.name)
    if name in taken:
        name = f"{name}-{seen.id[:12]}"
    return LiveJob(
        id=JobId(name),
        at=at,
        spec=JobSpec(kind=seen.image),
        commands={},
        adopted=seen.id,
        node=node,
    )


def _clean(name: str) -> str:
    """As jobs are called."""
    kept = "".join(c if c.isalnum() else "-" for c in name.lower()).strip("-")
    return kept[:63] or "container"
