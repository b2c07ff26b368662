"""May this plan be carried out? The last pure look before anything is touched.

What breaks a rule is refused, in words, and harms no other decision of the plan. A backend
looks again in its turn: the world may have moved on since the snapshot.
"""

from headway.core.model.decision import (
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
from headway.core.model.job import Job, Mode, Phase, missing
from headway.core.model.serialization import record
from headway.core.model.snapshot import Snapshot
from headway.core.model.units import JobId, NodeId, ReplicaId, Resources, Share

Where = tuple[tuple[ReplicaId, NodeId], ...]
Taken = dict[NodeId, Resources]
"""What is spoken for on a node, where that is more than the snapshot says."""

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
    if len(plan.decisions) == 1 and not isinstance(plan.decisions[0], SetShare):
        why = _act(plan.decisions[0], snapshot, {})
        if why:
            return Verdict(refused=(Refused(decision=plan.decisions[0], why=why),))
        return Verdict(accepted=plan.decisions)
    accepted: list[Decision] = []
    refused: list[Refused] = []
    so_far = _SoFar()
    shares = [d for d in plan.decisions if isinstance(d, SetShare)]
    light = _too_light(shares, snapshot) if shares else set()
    for decision in plan.decisions:
        if isinstance(decision, SetShare):
            too_light = decision.replica in light
            why = "its weight would be too small" if too_light else _share(decision, snapshot)
            why = why or ("it is leaving" if decision.replica in so_far.leaving else "")
        else:
            why = so_far.again(decision, snapshot) or _act(decision, snapshot, so_far.taken)
        if why:
            refused.append(Refused(decision=decision, why=why))
            continue
        accepted.append(decision)
        if not isinstance(decision, SetShare):
            so_far.accept(decision, snapshot)
    return Verdict(accepted=tuple(accepted), refused=tuple(refused))


class _SoFar:
    """What the decisions accepted so far change for those after them. Room is only ever taken: who
    leaves has not left yet.
    """

    def __init__(self) -> None:
        self.whom: set[str] = set()
        self.moved: set[str] = set()
        """Jobs of which a replica moves."""
        self.leaving: set[ReplicaId] = set()
        self.taken: Taken = {}

    def again(self, d: Decision, s: Snapshot) -> str:
        """One act for each in a cycle; of one job several may move, if it does nothing else."""
        if isinstance(d, Move):
            r = s.replicas.get(d.replica)
            twice = d.replica in self.whom or (r is not None and r.job in self.whom)
        else:
            twice = subject(d) in self.whom or subject(d) in self.moved
        return "one act for each in a cycle" if twice else ""

    def accept(self, d: Place | Move | Scale | Suspend, s: Snapshot) -> None:
        self.whom.add(subject(d))
        if isinstance(d, Move):
            job = s.replicas[d.replica].job
            self.moved.add(job)
            self.leaving.add(d.replica)
            self._take(job, ((d.replica, d.to),), s)
        elif isinstance(d, Place):
            self._take(d.job, d.where, s)
        elif isinstance(d, Scale):
            self.leaving.update(d.remove)
            self._take(d.job, d.add, s)
        else:
            self.leaving.update(s.of_job[d.job])

    def _take(self, job: JobId, where: Where, s: Snapshot) -> None:
        spec = s.jobs[job].spec
        for name, node in where:
            before = self.taken.get(node, s.nodes[node].taken)
            self.taken[node] = before + spec.task(name.task).request


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
    least, own = LEAST_LIMIT * s.nodes[replica.node].capacity.cpu * (1 - 1e-9), s.ceiling(replica)
    least = least if own is None else min(least, own)  # it is the user's to ask for less
    if d.limit is not None and d.limit < least:
        return f"a ceiling of {d.limit:g} cores is below the least of {least:g}"
    return "" if d.weight > 0 else "a weight must be positive"


def _act(decision: Decision, s: Snapshot, taken: Taken) -> str:
    match decision:
        case Place():
            return _place(decision, s, taken)
        case Move():
            return _move(decision, s, taken)
        case Scale():
            return _scale(decision, s, taken)
        case _:
            assert isinstance(decision, Suspend)  # noqa: S101 - the type checker's
            return "" if half_started(s.jobs.get(decision.job), s) else _movable(s, decision.job)


def _place(d: Place, s: Snapshot, taken: Taken) -> str:
    job = s.jobs.get(d.job)
    if d.partial:
        return _part(job, d, s, taken)
    if job is None or job.phase is not Phase.PENDING:
        return "it is not waiting"
    named = [name.task for name, _ in d.where]
    for task in job.spec.tasks:
        count = named.count(task.name)
        if not task.least <= count <= task.most:
            return f"a gang is started whole: {count} of {task.replicas} {task.name}"
    return _room(job, d.where, s, taken)


def _part(job: Job | None, d: Place, s: Snapshot, taken: Taken) -> str:
    """An asynchronous job runs before it is whole."""
    runs = job is not None and job.spec.speed is not None and not job.spec.speed.waits
    open_ = (Phase.PENDING, Phase.STARTING, Phase.RUNNING if runs else Phase.PENDING)
    if job is None or job.phase not in open_:
        return "it waits for nobody"
    names = {name for name, _ in d.where}
    if not names or not names.issubset(missing(job, {r.id for r in s.placed(job.id)})):
        return "these are not what it waits for"
    return _room(job, d.where, s, taken)


def half_started(job: Job | None, s: Snapshot) -> bool:
    """Does it hold room and wait for the rest of its gang?"""
    return (
        job is not None
        and job.phase is Phase.STARTING
        and bool(missing(job, {r.id for r in s.placed(job.id)}))
    )


def _room(job: Job, where: Where, s: Snapshot, taken: Taken) -> str:
    here: Taken = {}
    for name, node in where:
        there = s.nodes.get(node)
        if there is None or not there.up:
            return f"node {node} is not there"
        task = job.spec.task(name.task)
        if task.nodes is not None and node not in task.nodes:
            return f"{task.name} may not go to node {node}"
        request = task.request
        before = here.get(node) or taken.get(node, there.taken)
        if not request.fits(before, there.capacity):
            return f"no room on node {node}"
        if len(where) > 1:
            here[node] = before + request
    return ""


def _move(d: Move, s: Snapshot, taken: Taken) -> str:
    replica = s.replicas.get(d.replica)
    if replica is None or replica.phase is not Phase.RUNNING:
        return "it is not running"
    if replica.node == d.to:
        return "it is there already"
    return _movable(s, replica.job) or _room(s.jobs[replica.job], ((d.replica, d.to),), s, taken)


def _movable(s: Snapshot, name: JobId) -> str:
    job = s.jobs.get(name)
    if job is None or job.phase is not Phase.RUNNING:
        return "it is not running"
    return "it cannot save itself" if job.spec.checkpoint is Mode.NONE else ""


def _scale(d: Scale, s: Snapshot, taken: Taken) -> str:
    job = s.jobs.get(d.job)
    if job is None or job.phase is not Phase.RUNNING:
        return "it is not running"
    here = {r.id for r in s.placed(d.job) if r.task == d.task}
    task = next((t for t in job.spec.tasks if t.name == d.task), None)
    if task is None or not here.issuperset(d.remove) or here & {name for name, _ in d.add}:
        return "no such replicas"
    if not d.add and not d.remove:
        return "nobody would come or go"
    count = len(here) + len(d.add) - len(d.remove)
    if not task.least <= count <= task.most:
        return f"{count} replicas are outside {task.least} to {task.most}"
    return _room(job, d.add, s, taken)
