"""Place whole gangs: replica by replica on the best node, or by an exhaustive search."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from headway.core.model.job import Job, JobSpec, Task
from headway.core.model.node import Node
from headway.core.model.units import NodeId, ReplicaId, Resources, Where
from headway.policy.common.node_search import NodeSearch

Shape = tuple[str | float, ...]
Placed = list[tuple[ReplicaId, NodeId]]
Wanted = list[tuple[ReplicaId, Resources]]
TRIES = 300
"""Steps after which an exhaustive search is given up."""
FIXED = ("ps", "chief")
"""Tasks whose replicas are never added or removed: a job cannot run without them."""


def elastic_task(spec: JobSpec) -> Task | None:
    """Return the task whose replicas can be added and removed, if there is one."""
    return next((t for t in spec.tasks if t.least < t.most and t.name not in FIXED), None)


def with_workers(job: Job, count: int | None = None) -> Job:
    """Return the job with this number of replicas of its elastic task; None: the minimum."""
    task = elastic_task(job.spec)
    if task is None:
        return job
    sized = replace(task, replicas=task.least if count is None else count)
    tasks = tuple(sized if t is task else t for t in job.spec.tasks)
    return replace(job, spec=replace(job.spec, tasks=tasks))


def ordered_gang(job: Job, *, fewer: bool) -> tuple[Wanted, int]:
    """Return the replicas of a gang, ps and chief first, and how many of them are required.
    `fewer`: replicas above the minimum of an elastic task are optional; they come last.
    """
    required: Wanted = []
    optional: Wanted = []
    scaled = elastic_task(job.spec) if fewer else None
    for task in sorted(job.spec.tasks, key=lambda t: t.name not in FIXED):
        least = task.least if task is scaled else task.replicas
        every = [(ReplicaId.of(job.id, task.name, i), task.request) for i in range(task.replicas)]
        required += every[:least]
        optional += every[least:]
    return required + optional, len(required)


def place_each(
    free: NodeSearch,
    job: Job,
    *,
    fewer: bool,
    best: Callable[[NodeSearch, Task, Placed], Node | None] = lambda free, task, _: free.best(task),
) -> Where | None:
    """Place one replica after another, fixed tasks first; None if the gang does not fit. `best`
    chooses a node for a replica of a task, beside those placed so far.
    """
    before = dict(free.touched)
    where: Placed = []
    wanted, least = ordered_gang(job, fewer=fewer)
    for name, _ in wanted:
        task = job.spec.task_of(name)
        node = best(free, task, where)
        if node is None and len(where) < least:
            free.touched = before
            return None
        if node is None:
            break
        free.take(node.id, task.request)
        where.append((name, node.id))
    return tuple(where)


def place_exhaustively(free: NodeSearch, job: Job, *, fewer: bool) -> Where | None:
    """Place the required replicas by trying all ways, the largest replica first. For gangs that do
    not fit one after another because one replica blocks another.
    """
    wanted, least = ordered_gang(job, fewer=fewer)
    required = wanted[:least]
    ordered = sorted(required, key=lambda m: (m[1].gpu, m[1].cpu, m[1].memory), reverse=True)
    kinds = Counter(request for _, request in required)
    if len(required) < 2 or any(free.slots(request) < n for request, n in kinds.items()):
        return None
    nodes = free.able(kinds, len(required))
    where: list[NodeId] = []
    if not _backtrack([r for _, r in ordered], nodes, [n.taken for n in nodes], where, [TRIES]):
        return None
    found = tuple((name, node) for (name, _), node in zip(ordered, where, strict=True))
    free.take_all(job.spec, found)
    return found


def _backtrack(
    requests: list[Resources],
    nodes: list[Node],
    taken: list[Resources],
    where: list[NodeId],
    tries: list[int],
) -> bool:
    """Depth first; of equal nodes only one is tried."""
    if len(where) == len(requests):
        return True
    request, tried = requests[len(where)], set[tuple[Resources, Resources]]()
    for i, node in enumerate(nodes):
        before = taken[i]
        key = (before, node.capacity)
        if key in tried or not request.fits(before, node.capacity):
            continue
        tried.add(key)
        tries[0] -= 1
        if tries[0] < 0:
            return False
        taken[i] = before + request
        where.append(node.id)
        if _backtrack(requests, nodes, taken, where, tries):
            return True
        where.pop()
        taken[i] = before
    return False


def shape(job: Job, *, fewer: bool) -> Shape:
    """Return a key: gangs with the same key fit in the same places. It is computed for each pending
    job in each cycle.
    """
    scaled = elastic_task(job.spec) if fewer else None
    found: list[str | float] = []
    for t in job.spec.tasks:
        r = t.request
        found += (
            "*" if t.nodes is None else ",".join(t.nodes),
            t.least if t is scaled else t.replicas,
            r.cpu,
            r.memory,
            r.gpu,
            t.name in FIXED,
        )
    return tuple(found)
