"""Reasons why jobs wait in the queue, for users: what a job needs, what is free, which jobs are
ahead, and the approximate time until it starts. The policy decides when and where a job starts.
"""

from collections.abc import Mapping, Sequence
from itertools import islice

from headway.core.cycle.cluster_state import ClusterState
from headway.core.model.job import Job
from headway.core.model.node import Node
from headway.core.model.snapshot import Changes, Snapshot, Trigger
from headway.core.model.units import NOTHING, JobId, Resources, Seconds, Where
from headway.policy.common.name_list import NAMED
from headway.policy.common.reservation import held_by, until_fits
from headway.policy.placement.even import Search

MOST = 20
"""Number of jobs at the head of the queue with a detailed reason."""
GIB = 2.0**30


def waiting_reasons(
    state: ClusterState, ends: Mapping[JobId, Seconds | None], now: Seconds, most: int
) -> dict[JobId, str]:
    """Return why the first `most` jobs of the queue wait. `ends`: expected ends of other jobs."""
    snapshot = Snapshot(state, Trigger.TICK, Changes())
    active = [name for name in state.jobs if name not in state.queue] if state.queue else []
    active.sort(key=lambda name: (ends.get(name) is None, ends.get(name) or 0.0))
    releases = [held_by(snapshot, snapshot.placed(name)) for name in active]
    free, found, ahead = Search(snapshot), dict[JobId, str](), list[JobId]()
    for job in islice(snapshot.waiting, most):
        if len(ahead) >= MOST:
            found[job.id] = f"{len(ahead)} jobs are ahead in the queue"
            ahead.append(job.id)
            continue
        fits = until_fits(free, job, releases, _place)
        last = active[fits[0] - 1] if fits and fits[0] else None
        if fits is None or fits[0]:
            parts = (_needs(state, job), _behind(ahead), _begins(last, ends, now))
            found[job.id] = "; ".join(part for part in parts if part)
        if fits is not None:
            free.take_all(job.spec, fits[1])
        ahead.append(job.id)
    return found


def _place(search: Search, job: Job, _fewer: bool) -> Where | None:
    search.full = set()
    return search.place(job) or None


def _needs(state: ClusterState, job: Job) -> str:
    """Describe what a job needs, and the free capacity of the node that has most of it."""
    wanted = sum((t.request.times(t.replicas) for t in job.spec.tasks), NOTHING)
    count = sum(t.replicas for t in job.spec.tasks)
    text = f"needs {_amount(wanted)}" if wanted != NOTHING else ""
    text += f" for {count} replicas" if text and count > 1 else ""
    tasks = job.spec.tasks
    allowed = {n for t in tasks for n in (state.nodes if t.nodes is None else t.nodes)}
    nodes = [n for n in state.nodes.values() if n.up and n.id in allowed]
    if not nodes:
        return f"{text}; its nodes are down or drained" if text else "all nodes are down or drained"
    largest = max((t.request for t in job.spec.tasks), key=lambda r: (r.gpu, r.cpu, r.memory))
    best = max(nodes, key=lambda n: _free(n, largest))
    left = best.capacity - best.taken
    shown = ", ".join(
        f"{max(0.0, have) / unit:.3g} of {whole / unit:.3g} {name}"
        for want, have, whole, unit, name in (
            (wanted.gpu, left.gpu, best.capacity.gpu, 1.0, "GPUs"),
            (wanted.cpu, left.cpu, best.capacity.cpu, 1.0, "cores"),
            (wanted.memory, left.memory, best.capacity.memory, GIB, "GiB"),
        )
        if want
    )
    return f"{text}; node {best.id} has {shown} free" if text else ""


def _free(node: Node, request: Resources) -> float:
    """Return the smallest fraction of a request that is free."""
    left = node.capacity - node.taken
    pairs = ((request.cpu, left.cpu), (request.memory, left.memory), (request.gpu, left.gpu))
    return min((have / want for want, have in pairs if want), default=0.0)


def _amount(r: Resources) -> str:
    amounts = ((r.gpu, "GPU"), (r.cpu, "core"), (r.memory / GIB, "GiB"))
    return " and ".join(
        f"{n:.3g} {name}{'s' * (n != 1 and name != 'GiB')}" for n, name in amounts if n
    )


def _behind(ahead: Sequence[JobId]) -> str:
    if not ahead:
        return ""
    more = len(ahead) - NAMED
    others = f" and {more} other{'s' * (more > 1)}" if more > 0 else ""
    return f"behind {', '.join(ahead[:NAMED])}{others}"


def _begins(last: JobId | None, ends: Mapping[JobId, Seconds | None], now: Seconds) -> str:
    """Describe when a job starts. `last`: the job that must end before."""
    if last is None:
        return ""
    at = ends.get(last)
    return f"starts after {last}" + ("" if at is None else f", in about {max(0.0, at - now):.0f} s")
