"""Refuse jobs that can never start on the given nodes."""

from collections.abc import Iterable, Mapping, Sequence

from headway.core.cycle.free_capacity import FreeCapacity
from headway.core.model.job import JobSpec, Task
from headway.core.model.node import Node
from headway.core.model.units import NOTHING, JobId, Resources
from headway.errors import ConfigError

_KINDS = ("cpu", "memory", "gpu")


def refuse_too_large(jobs: Mapping[JobId, JobSpec], nodes: Sequence[Node], where: str) -> None:
    """Raise an error if a gang does not fit on the empty nodes."""
    known: dict[tuple[Task, ...], int] = {}
    for name, spec in jobs.items():
        wanted = largest_first(spec)
        if spec.tasks not in known:
            _refuse_replica(name, wanted, nodes, where)
            known[spec.tasks] = FreeCapacity({n.id: n for n in nodes}).first_fit(wanted)
        fit = known[spec.tasks]
        if fit < len(wanted):
            raise ConfigError(
                f"job {name!r} requests {len(wanted)} replicas at once, but only {fit} fit on all "
                "nodes together",
                where=where,
                hint="request fewer or smaller replicas, or add nodes",
            )


def largest_first(spec: JobSpec) -> list[Resources]:
    """Return the requests of all replicas that a job starts with."""
    requests = [t.request for t in spec.tasks for _ in range(t.replicas)]
    return sorted(requests, key=lambda r: (r.gpu, r.cpu, r.memory), reverse=True)


def _refuse_replica(
    job: JobId, wanted: Sequence[Resources], nodes: Sequence[Node], where: str
) -> None:
    for one in wanted:
        if not nodes or any(one.fits(NOTHING, n.capacity) for n in nodes):
            continue
        most = {k: max(getattr(n.capacity, k) for n in nodes) for k in _KINDS}
        short = [k for k in _KINDS if getattr(one, k) > most[k]]
        wanted_text = _join(one, [k for k in short or _KINDS if getattr(one, k)])
        largest = _join(Resources(**most), short)
        raise ConfigError(
            f"job {job!r} requests {wanted_text} per replica; "
            f"{f'the largest node has {largest}' if short else 'no single node has all of it'}",
            where=where,
            hint="request less, or add a larger node",
        )


def _join(amounts: Resources, kinds: Iterable[str]) -> str:
    return " and ".join(_format(k, getattr(amounts, k)) for k in kinds)


def _format(kind: str, amount: float) -> str:
    """Format an amount of a resource.

    >>> _format("memory", 4000 * 2.0**30), _format("memory", 1e9), _format("cpu", 1)
    ('4000Gi of memory', '954Mi of memory', '1 core')
    """
    if kind == "memory":
        unit, size = ("Gi", 2.0**30) if amount >= 2**30 else ("Mi", 2.0**20)
        return f"{round(amount / size, 1 if unit == 'Gi' else None):g}{unit} of memory"
    return f"{amount:g} {'core' if kind == 'cpu' else 'GPU'}{'s' * (amount != 1)}"
