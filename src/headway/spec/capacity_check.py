"""What can never be started is refused before anything is."""

from collections.abc import Callable, Mapping, Sequence

from headway.core.cycle.capacity_fit import found_room, requests
from headway.core.model.job import JobSpec, Task
from headway.core.model.node import Node
from headway.core.model.units import NOTHING, JobId, Resources
from headway.errors import ConfigError


def refuse_too_large(jobs: Mapping[JobId, JobSpec], nodes: Sequence[Node], where: str) -> None:
    """A gang that would not fit on all nodes, were they empty, would wait for ever."""
    known: dict[tuple[Task, ...], int] = {}
    for name, spec in jobs.items():
        wanted = requests(spec)
        if spec.tasks not in known:
            _refuse_replica(name, wanted, nodes, where)
            known[spec.tasks] = found_room(wanted, nodes)
        fit = known[spec.tasks]
        if fit < len(wanted):
            raise ConfigError(
                f"job {name!r} asks for {len(wanted)} replicas at once, and all nodes together "
                f"hold {fit} of them",
                where=where,
                hint="ask for fewer or smaller replicas, or add nodes",
            )


def _refuse_replica(
    job: JobId, wanted: Sequence[Resources], nodes: Sequence[Node], where: str
) -> None:
    for one in wanted:
        if not nodes or any(one.fits(NOTHING, n.capacity) for n in nodes):
            continue
        most = {k: max(getattr(n.capacity, k) for n in nodes) for k in _SPELL}
        short = [k for k in _SPELL if getattr(one, k) > most[k]]
        asked = " and ".join(_SPELL[k](getattr(one, k)) for k in short or _SPELL if getattr(one, k))
        there = " and ".join(_SPELL[k](most[k]) for k in short)
        raise ConfigError(
            f"job {job!r} asks for {asked} in one replica, and no node has that much"
            f"{f': the most is {there}' if short else ' of all of it'}",
            where=where,
            hint="ask for less, or add a larger node",
        )


def _memory(amount: float) -> str:
    """As people write it.

    >>> _memory(4000 * 2.0**30), _memory(1e9)
    ('4000Gi of memory', '954Mi of memory')
    """
    unit, size = ("Gi", 2.0**30) if amount >= 2**30 else ("Mi", 2.0**20)
    return f"{round(amount / size, 1 if unit == 'Gi' else None):g}{unit} of memory"


def _counted(name: str) -> Callable[[float], str]:
    return lambda amount: f"{amount:g} {name}{'s' * (amount != 1)}"


_SPELL: dict[str, Callable[[float], str]] = {
    "cpu": _counted("core"),
    "memory": _memory,
    "gpu": _counted("GPU"),
}
