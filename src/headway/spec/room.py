"""What can never be started is refused before anything is."""

from collections.abc import Mapping, Sequence

from headway.core.job import JobSpec, Task
from headway.core.node import Node
from headway.core.room import found_room, requests
from headway.core.units import JobId
from headway.errors import ConfigError


def refuse_too_large(jobs: Mapping[JobId, JobSpec], nodes: Sequence[Node], where: str) -> None:
    """A gang that would not fit on all nodes, were they empty, would wait for ever."""
    known: dict[tuple[Task, ...], int] = {}
    for name, spec in jobs.items():
        wanted = requests(spec)
        if spec.tasks not in known:
            known[spec.tasks] = found_room(wanted, nodes)
        fit = known[spec.tasks]
        if fit < len(wanted):
            raise ConfigError(
                f"job {name!r} asks for {len(wanted)} replicas at once, and all nodes together "
                f"hold {fit} of them",
                where=where,
                hint="ask for fewer or smaller replicas, or add nodes",
            )
