"""Validate a plan before it is executed.

A decision that breaks a rule is refused with a reason. The other decisions are not affected. A
backend validates again, because the cluster may have changed since the snapshot.
"""

from headway.core.cycle.free_capacity import FreeCapacity
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
from headway.core.model.units import JobId, NodeId, ReplicaId, Resources, Share, Where

LEAST_LIMIT: Share = 0.01
"""Smallest limit, as a fraction of the node: a replica without CPU makes no progress."""
LEAST_WEIGHT: Share = 0.002
"""Smallest weight, as a fraction of the node's total."""
NOT_RUNNING = "it is not running"


@record
class Verdict:
    accepted: tuple[Decision, ...] = ()
    refused: tuple[Refused, ...] = ()


FINE = Verdict()


def check(plan: Plan, snapshot: Snapshot) -> Verdict:
    """Check each decision on the snapshot that the accepted decisions before it lead to."""
    if not plan.decisions:
        return FINE
    if len(plan.decisions) == 1 and not isinstance(plan.decisions[0], SetShare):
        (only,) = plan.decisions
        why = _act(only, snapshot, FreeCapacity(snapshot.nodes))
        if why:
            return Verdict(refused=(Refused(decision=only, why=why),))
        return Verdict(accepted=plan.decisions)
    accepted: list[Decision] = []
    refused: list[Refused] = []
    progress = _Accepted(snapshot)
    shares = [d for d in plan.decisions if isinstance(d, SetShare)]
    light = _too_light(shares, snapshot) if shares else set()
    for decision in plan.decisions:
        if isinstance(decision, SetShare):
            why = _share(decision, snapshot, light, progress.leaving)
        else:
            why = progress.again(decision) or _act(decision, snapshot, progress.free)
        if why:
            refused.append(Refused(decision=decision, why=why))
            continue
        accepted.append(decision)
        if not isinstance(decision, SetShare):
            progress.accept(decision)
    return Verdict(accepted=tuple(accepted), refused=tuple(refused))


class _Accepted:
    """Effect of the accepted decisions on those that follow. Accepted decisions take capacity and
    release none, because replicas that will stop still run.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.free = FreeCapacity(snapshot.nodes)
        self.subjects: set[str] = set()
        self.moved: set[str] = set()
        """Jobs with a replica that migrates."""
        self.leaving: set[ReplicaId] = set()

    def again(self, d: Decision) -> str:
        """Refuse a second action on a job, except for migrations of several of its replicas."""
        if isinstance(d, Move):
            r = self.snapshot.replicas.get(d.replica)
            twice = d.replica in self.subjects or (r is not None and r.job in self.subjects)
        else:
            twice = subject(d) in self.subjects or subject(d) in self.moved
        return "only one action for each job in a cycle" if twice else ""

    def accept(self, d: Place | Move | Scale | Suspend) -> None:
        s = self.snapshot
        self.subjects.add(subject(d))
        if isinstance(d, Move):
            job = s.replicas[d.replica].job
            self.moved.add(job)
            self.leaving.add(d.replica)
            self.free.take_all(s.jobs[job].spec, ((d.replica, d.to),))
        elif isinstance(d, Place):
            self.free.take_all(s.jobs[d.job].spec, d.where)
        elif isinstance(d, Scale):
            self.leaving.update(d.remove)
            self.free.take_all(s.jobs[d.job].spec, d.add)
        else:
            self.leaving.update(s.of_job[d.job])


# -- shares --------------------------------------------------------------------------------------


def _too_light(shares: list[SetShare], snapshot: Snapshot) -> set[ReplicaId]:
    """Return the replicas whose weight would be below `LEAST_WEIGHT` after all of the plan."""
    weights = {d.replica: d.weight for d in shares}
    nodes = {r.node for d in shares if (r := snapshot.replicas.get(d.replica)) and r.node}
    light: set[ReplicaId] = set()
    for node in nodes:
        here = [(r.id, weights.get(r.id, r.weight)) for r in snapshot.on(node)]
        least = LEAST_WEIGHT * sum(w for _, w in here) * (1 - 1e-9)
        light.update(r for r, w in here if r in weights and w < least)
    return light


def _share(d: SetShare, s: Snapshot, light: set[ReplicaId], leaving: set[ReplicaId]) -> str:
    if d.replica in light:
        return "its weight would be too small"
    replica = s.replicas.get(d.replica)
    if replica is None or replica.phase is not Phase.RUNNING or replica.node is None:
        return NOT_RUNNING
    if not s.can(replica.job).shares:
        return _impossible("shares", "changed", s.capabilities.shares)
    least, own = LEAST_LIMIT * s.nodes[replica.node].capacity.cpu * (1 - 1e-9), s.ceiling(replica)
    least = least if own is None else min(least, own)  # a user may set less
    if d.limit is not None and d.limit < least:
        return f"a limit of {d.limit:g} cores is below the minimum of {least:g}"
    if d.weight <= 0:
        return "a weight must be positive"
    return "it is about to stop or migrate" if d.replica in leaving else ""


def _impossible(what: str, how: str, platform_can: bool) -> str:
    return f"{what} cannot be {how} {'for this job' if platform_can else 'on this platform'}"


# -- places, migrations, scaling, suspension -----------------------------------------------------


def _act(decision: Decision, s: Snapshot, free: FreeCapacity) -> str:
    match decision:
        case Place():
            return _place(decision, s, free)
        case Move():
            return _move(decision, s, free)
        case Scale():
            return _scale(decision, s, free)
        case _:
            assert isinstance(decision, Suspend)  # noqa: S101 - for the type checker
            return _suspend(decision, s)


def _place(d: Place, s: Snapshot, free: FreeCapacity) -> str:
    job = s.jobs.get(d.job)
    if d.partial:
        return _place_part(job, d, s, free)
    if job is None or job.phase is not Phase.PENDING:
        return "it is not pending"
    named = [name.task for name, _ in d.where]
    for task in job.spec.tasks:
        count = named.count(task.name)
        if not task.least <= count <= task.most:
            return f"incomplete gang: {count} of {task.replicas} {task.name}"
    return _fits(job, d.where, free)


def _place_part(job: Job | None, d: Place, s: Snapshot, free: FreeCapacity) -> str:
    """Check a partial placement. An asynchronous job runs before all of its replicas are placed."""
    runs = job is not None and job.spec.speed is not None and not job.spec.speed.waits
    open_ = (Phase.PENDING, Phase.STARTING, Phase.RUNNING if runs else Phase.PENDING)
    if job is None or job.phase not in open_:
        return "it has no replicas to place"
    names = {name for name, _ in d.where}
    if not names or not names.issubset(missing(job, {r.id for r in s.placed(job.id)})):
        return "these replicas are not pending"
    return _fits(job, d.where, free)


def half_started(job: Job | None, s: Snapshot) -> bool:
    """Return whether a job holds capacity while other replicas of its gang are pending."""
    return (
        job is not None
        and job.phase is Phase.STARTING
        and bool(missing(job, {r.id for r in s.placed(job.id)}))
    )


def _fits(job: Job, where: Where, free: FreeCapacity) -> str:
    taken: dict[NodeId, Resources] = {}
    there = None
    for name, node in where:
        if there is None or there.id != node:
            there = free.node(node)
            if there is None or not there.up:
                return f"node {node} is not available"
        task = job.spec.task_of(name)
        if task.nodes is not None and node not in task.nodes:
            return f"{task.name} cannot run on node {node}"
        before = taken.get(node, there.taken)
        if not task.request.fits(before, there.capacity):
            return f"node {node} has too little free capacity"
        if len(where) > 1:
            taken[node] = before + task.request
    return ""


def _move(d: Move, s: Snapshot, free: FreeCapacity) -> str:
    replica = s.replicas.get(d.replica)
    if replica is None or replica.phase is not Phase.RUNNING:
        return NOT_RUNNING
    if replica.node == d.to:
        return f"it is already on node {d.to}"
    if not s.can(replica.job).migrate:
        return _impossible("replicas", "migrated", s.capabilities.migrate)
    return _stoppable(s, replica.job) or _fits(s.jobs[replica.job], ((d.replica, d.to),), free)


def _suspend(d: Suspend, s: Snapshot) -> str:
    if d.job in s.jobs and not s.can(d.job).suspend:
        return _impossible("jobs", "suspended", s.capabilities.suspend)
    return "" if half_started(s.jobs.get(d.job), s) else _stoppable(s, d.job)


def _stoppable(s: Snapshot, name: JobId) -> str:
    job = s.jobs.get(name)
    if job is None or job.phase is not Phase.RUNNING:
        return NOT_RUNNING
    return "it cannot save checkpoints" if job.spec.checkpoint is Mode.NONE else ""


def _scale(d: Scale, s: Snapshot, free: FreeCapacity) -> str:
    job = s.jobs.get(d.job)
    if job is None or job.phase is not Phase.RUNNING:
        return NOT_RUNNING
    if not s.can(d.job).scale:
        return _impossible("jobs", "scaled", s.capabilities.scale)
    here = {r.id for r in s.placed(d.job) if r.task == d.task}
    task = next((t for t in job.spec.tasks if t.name == d.task), None)
    if task is None or not here.issuperset(d.remove) or here & {name for name, _ in d.add}:
        return "no such replicas"
    if not d.add and not d.remove:
        return "it adds and removes no replica"
    count = len(here) + len(d.add) - len(d.remove)
    if not task.least <= count <= task.most:
        return f"{count} replicas are outside {task.least} to {task.most}"
    return _fits(job, d.add, free)
