"""Adopt containers as jobs."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from headway.backend.clock import Clock
from headway.backend.docker.container import JOB, RUN, ContainerState
from headway.backend.docker.engine import Engine
from headway.backend.new_job import new_job
from headway.controller.events import Event, JobSeen
from headway.core.model.job import JobSpec
from headway.core.model.units import JobId, NodeId, Seconds
from headway.errors import ConfigError
from headway.spec.runnable import RunnableJob


def by_name(engines: Sequence[Engine], names: Sequence[str]) -> list[RunnableJob]:
    return _jobs([_find(engines, name) for name in dict.fromkeys(names)])


def by_label(engines: Sequence[Engine], label: str) -> list[RunnableJob]:
    """Return jobs for the running containers with this label: KEY or KEY=VALUE."""
    found = [(engine, seen) for engine in engines for seen in _with_label(engine, label)]
    if not found:
        raise ConfigError(
            f"no running container has the label {label!r}",
            where=", ".join(e.client.url for e in engines),
            hint=f"docker run --label {label} …, or `labels:` of a compose service",
        )
    return _jobs(found)


def _with_label(engine: Engine, label: str) -> list[ContainerState]:
    """Return the running containers with a label that belong to no run of Headway."""
    return [seen for seen in engine.containers(label) if RUN not in seen.labels]


def _find(engines: Sequence[Engine], name: str) -> tuple[Engine, ContainerState]:
    for engine in engines:
        seen = engine.container(name)
        if seen is not None and not seen.running:
            raise ConfigError(f"container {name!r} is not running: it is {seen.state}")
        if seen is not None:
            return engine, seen
    raise ConfigError(
        f"no container is called {name!r}",
        where=", ".join(e.client.url for e in engines),
        hint="list containers with docker ps; a process is adopted by its pid",
    )


def _jobs(found: Iterable[tuple[Engine, ContainerState]]) -> list[RunnableJob]:
    jobs: dict[str, RunnableJob] = {}
    for engine, seen in found:
        made = to_job(engine.name, seen, jobs)
        jobs[made.id] = made
    return list(jobs.values())


def to_job(
    node: NodeId, seen: ContainerState, taken: Iterable[str], at: Seconds = 0.0
) -> RunnableJob:
    """Return a job for a container. Its name is that of the label `headway.dev/job` or the
    container.
    """
    name = _clean(seen.labels.get(JOB) or seen.name)
    if name in taken:
        name = _clean(seen.name)
    if name in taken:
        name = f"{name}-{seen.id[:12]}"
    spec = JobSpec(kind=seen.image)
    return RunnableJob(id=JobId(name), at=at, spec=spec, commands={}, adopted=seen.id, node=node)


def _clean(name: str) -> str:
    """Convert a name to a valid name of a job."""
    kept = "".join(c if c.isascii() and c.isalnum() else "-" for c in name.lower()).strip("-")
    return kept[:63] or "container"


class LabelWatch:
    """Adopts containers with a label when they start."""

    def __init__(self, label: str, jobs: dict[JobId, RunnableJob], clock: Clock) -> None:
        """`label`: KEY or KEY=VALUE; "" matches none."""
        self._label, self._jobs, self._clock = label, jobs, clock
        self.released: set[str] = set()
        """Containers that were released."""

    def matches(self, attributes: Mapping[str, str]) -> bool:
        key, equals, value = self._label.partition("=")
        here = attributes.get(key) if key and RUN not in attributes else None
        return here is not None and (not equals or here == value)

    def compare(self, engine: Engine) -> None:
        """Adopt containers that started while there was no connection to the engine."""
        if self._label:
            call = partial(_with_label, engine, self._label)
            engine.worker.do(call, lambda all_: [e for x in all_ for e in self.started(engine, x)])

    def started(self, engine: Engine, seen: ContainerState | None) -> list[Event]:
        known = {job.adopted for job in self._jobs.values()} - self.released
        if seen is None or not seen.running or seen.id in known:
            return []
        self.released.discard(seen.id)
        job = to_job(engine.name, seen, self._jobs, self._clock())
        self._jobs[job.id] = job
        return [JobSeen(new_job(job))]
