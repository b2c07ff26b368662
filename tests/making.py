"""Small snapshots, jobs and scenarios for tests to speak about."""

from headway.core.cycle.cluster_state import ClusterState, assemble, remember
from headway.core.model.job import Job, JobSpec, Mode, Phase, Replica, Task
from headway.core.model.node import Node
from headway.core.model.report import EMPTY, MetricHistory, Report, Usage, extend
from headway.core.model.snapshot import Observation, Trigger
from headway.core.model.units import ReplicaId, Resources

GIB = 2.0**30


def node(name="a", cpu=1.0, memory=64 * GIB, **more):
    return Node(id=name, capacity=Resources(cpu=cpu, memory=memory), **more)


def job(name, *, at=0.0, phase=Phase.RUNNING, cpu=0.0, tasks=None, mode=Mode.SDK, **spec):
    tasks = tasks or (Task(request=Resources(cpu=cpu)),)
    return Job(
        id=name, spec=JobSpec(tasks=tasks, checkpoint=mode, **spec), submitted_at=at, phase=phase
    )


def replica(name, *, on="a", phase=Phase.RUNNING, limit=None, weight=1.0, task="main", index=0):
    return Replica(
        id=ReplicaId(f"{name}/{task}-{index}"),
        job=name,
        task=task,
        node=on,
        phase=phase,
        limit=limit,
        weight=weight,
    )


def history(*, nodes=("a",), jobs=(), replicas=(), reports=(), at=0.0):
    """The tables after one complete look."""
    seen = Observation(
        at=at,
        complete=True,
        nodes=tuple(node(n) if isinstance(n, str) else n for n in nodes),
        jobs=tuple(jobs),
        replicas=tuple(replicas),
        reports=tuple(reports),
    )
    return remember(ClusterState(), seen)


def snapshot(*, trigger=Trigger.TICK, **what):
    return assemble(history(**what), trigger)


def running(*names, on="a", trigger=Trigger.TICK, **what):
    """A snapshot in which these jobs run, one replica each."""
    return snapshot(
        jobs=[job(n) for n in names],
        replicas=[replica(n, on=on) for n in names],
        trigger=trigger,
        **what,
    )


def heard(*values, every=20.0, cpu=0.5, start=0.0) -> MetricHistory:
    """A track with one value for each interval; None: silence."""
    track = EMPTY
    for i, value in enumerate(values):
        report = Report(
            replica=ReplicaId("x/main-0"),
            since=start + i * every,
            at=start + (i + 1) * every,
            step=float(i + 1),
            value=value,
            high=value,
            usage=Usage(cpu=cpu),
        )
        track = extend(track, report)
    return track
