"""Distributed jobs for tests to speak about."""

from headway.core.estimate.step_rate import Speed
from headway.core.model.decision import Place
from headway.core.model.job import Estimate, Expected, Mode, Phase, Task
from headway.core.model.node import Node
from headway.core.model.units import Resources
from headway.policy.registry import build
from making import job, replica

SPEED = Speed(compute=1.0, transfer=0.01, penalty=4.0)


def gpus(name, count=4.0, cpu=32.0, **more):
    return Node(id=name, capacity=Resources(cpu=cpu, memory=2.0**36, gpu=count), **more)


def tasks(workers, *, least=None, most=None, gpu=1.0, cpu=1.0, ps=0.5, chief=False):
    worker = Task(
        name="worker",
        replicas=workers,
        least=workers if least is None else least,
        most=workers if most is None else most,
        request=Resources(cpu=cpu, gpu=gpu),
    )
    fixed = (Task(name="ps", request=Resources(cpu=ps)),)
    if chief:
        fixed += (Task(name="chief", request=Resources(cpu=0.5)),)
    return (*fixed, worker)


def gang(name, workers, *, at=0.0, phase=Phase.PENDING, work=100.0, mode=Mode.SDK, **more):
    """A job with parameter server; what is left of it is told unless `work` is None."""
    told = None if work is None else Expected(work=Estimate(value=work), demand=1.0)
    return job(
        name, at=at, phase=phase, mode=mode, tasks=tasks(workers, **more), speed=SPEED,
        total_steps=work, expected=told,
    )  # fmt: skip


def there(name, *nodes, ps=None, phase=Phase.RUNNING):
    """Its replicas: the parameter server with the first worker, unless it is told where."""
    found = [replica(name, on=ps or nodes[0], task="ps", phase=phase)]
    return found + [
        replica(name, on=n, task="worker", index=i, phase=phase) for i, n in enumerate(nodes)
    ]


def decide(policy, s, memory=None):
    made = build(policy)
    return made.decide(s, made.begin() if memory is None else memory)


def placed(policy, s):
    plan, _ = decide(policy, s)
    return {d.job: [n for _, n in d.where] for d in plan.decisions if isinstance(d, Place)}
