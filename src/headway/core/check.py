"""May this plan be carried out? The last pure look before anything is touched.

What breaks a rule is refused, in words, and harms no other decision of the plan. A backend
looks again in its turn: the world may have moved on since the snapshot.
"""

from headway.core.decision import (
    Decision,
    Move,
    Place,
    Plan,
    Refused,
    Scale,
    SetShare,
    Suspend,
    subject,
)
from headway.core.foresee import foresee
from headway.core.job import Job, Mode, Phase, task_of
from headway.core.record import record
from headway.core.snapshot import Snapshot
from headway.core.units import NodeId, ReplicaId, Resources, Share

LEAST_LIMIT: Share = 0.01
"""No ceiling below this part of the node: a replica that gets nothing learns nothing."""
LEAST_WEIGHT: Share = 0.002
"""No weight below this part of the node's total."""


@record
class Verdict:
    accepted: tuple[Decision, ...] = ()
    refused: tuple[Refused, ...] = ()


FINE = Verdict()


def check(plan: Plan, snapshot: Snapshot) -> Verdict:
    """Each decision is judged on the snapshot as those before it would leave it."""
    if not plan.decisions:
        return FINE
    accepted: list[Decision] = []
    refused: list[Refused] = []
    future, done = snapshot, set[str]()
    shares = [d for d in plan.decisions if isinstance(d, SetShare)]
    light = _too_light(shares, snapshot) if shares else set()
    for decision in plan.decisions:
        whom = subject(decision)
        if isinstance(decision, SetShare):
            why = "its weight would be too small" if whom in light else _share(decision, future)
        elif whom in done:
            why = "one act for each in a cycle"
        else:
            why = _act(decision, future)
        if why:
            refused.append(Refused(decision=decision, why=why))
            continue
        accepted.append(decision)
        if not isinstance(decision, SetShare):
            done.add(whom)
            if len(plan.decisions) > 1:
                future = foresee(Plan(decisions=(decision,)), future)
    return Verdict(accepted=tuple(accepted), refused=tuple(refused))


def _too_light(shares: list[SetShare], snapshot: Snapshot) -> set[ReplicaId]:
    """Replicas whose weight would fall below their part of the node's total, after all of it."""
    weights = {d.replica: d.weight for d in shares}
    nodes = {r.node for d in shares if (r := snapshot.replicas.get(d.replica)) and r.node}
    light: set[ReplicaId] = set()
    for node in nodes:
        here = [(r.id, weights.get(r.id, r.weight)) for r in snapshot.on(node)]
        least = LEAST_WEIGHT * sum(w for _, w in here) * (1 - 1e-9)
        light.update(r for r, w in here if r in weights and w < least)
    return light


def _share(d: SetShare, s: Snapshot) -> str:
    replica = s.replicas.get(d.replica)
    if replica is None or replica.phase is not Phase.RUNNING or replica.node is None:
        return "it is not running"
    least = LEAST_LIMIT * s.nodes[replica.node].capacity.cpu * (1 - 1e-9)
    if d.limit is not None and d.limit < least:
        return f"a ceiling of {d.limit:g} cores is below the least of {least:g}"
    return "" if d.weight > 0 else "a weight must be positive"


def _act(decision: Decision, s: Snapshot) -> str:
    match decision:
        case Place():
            return _place(decision, s)
        case Move():
            return _move(decision, s)
        case Scale():
            return _scale(decision, s)
        case _:
            assert isinstance(decision, Suspend)  # noqa: S101 - the type checker's
            return _movable(s.jobs.get(decision.job))


def _place(d: Place, s: Snapshot) -> str:
    job = s.jobs.get(d.job)
    if job is None or job.phase is not Phase.WAITING:
        return "it is not waiting"
    named = [task_of(name) for name, _ in d.where]
    for task in job.spec.tasks:
        count = named.count(task.name)
        if not task.least <= count <= task.most:
            return f"a gang is started whole: {count} of {task.replicas} {task.name}"
    return _room(job, d.where, s)


def _room(job: Job, where: tuple[tuple[ReplicaId, NodeId], ...], s: Snapshot) -> str:
    taken: dict[NodeId, Resources] = {}
    for name, node in where:
        there = s.nodes.get(node)
        if there is None or not there.up:
            return f"node {node} is not there"
        task = job.spec.task(task_of(name))
        if task.nodes is not None and node not in task.nodes:
            return f"{task.name} may not go to node {node}"
        request = task.request
        before = taken.get(node, there.taken)
        if not request.fits(before, there.capacity):
            return f"no room on node {node}"
        taken[node] = before + request
    return ""


def _move(d: Move, s: Snapshot) -> str:
    replica = s.replicas.get(d.replica)
    if replica is None or replica.phase is not Phase.RUNNING:
        return "it is not running"
    if replica.node == d.to:
        return "it is there already"
    job = s.jobs[replica.job]
    return _movable(job) or _room(job, ((d.replica, d.to),), s)


def _movable(job: Job | None) -> str:
    if job is None or job.phase is not Phase.RUNNING:
        return "it is not running"
    return "it cannot save itself" if job.spec.checkpoint is Mode.NONE else ""


def _scale(d: Scale, s: Snapshot) -> str:
    job = s.jobs.get(d.job)
    if job is None or job.phase is not Phase.RUNNING:
        return "it is not running"
    here = {r.id for r in s.of(d.job) if r.task == d.task}
    task = next((t for t in job.spec.tasks if t.name == d.task), None)
    if task is None or not here.issuperset(d.remove) or here & {name for name, _ in d.add}:
        return "no such replicas"
    count = len(here) + len(d.add) - len(d.remove)
    if not task.least <= count <= task.most:
        return f"{count} replicas are outside {task.least} to {task.most}"
    return _room(job, d.add, s)
