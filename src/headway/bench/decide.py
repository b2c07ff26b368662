"""What one decision costs in a large cluster: a job comes, or one ends and many wait."""

import gc
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from statistics import median
from time import process_time
from typing import Any

from headway.backend.memory import MemoryBackend
from headway.bench.figure import Figure
from headway.core.cycle.policy import Policy
from headway.core.model.decision import Plan
from headway.core.model.job import (
    Estimate,
    Expected,
    Job,
    JobSpec,
    Mode,
    Phase,
    Replica,
    Task,
    gang,
)
from headway.core.model.node import Node
from headway.core.model.snapshot import Snapshot, Trigger
from headway.core.model.units import JobId, NodeId, Resources
from headway.policy.registry import build
from headway.runtime.journal import NoJournal
from headway.runtime.loop import Loop

SIZES = (10, 30, 100, 300, 1000)
"""Nodes; there are five jobs for each."""
BAR = 50.0
"""Milliseconds, at a thousand nodes and five thousand jobs."""
COMES = ("fair", "headway", "flowcon2", "fifo", "tiresias", "dragon", "kips")
WAIT = ("spread", "fifo", "tiresias", "gang", "gang+locality", "dragon", "kips", "optimus")


def bench_cluster(scale: float, sizes: Sequence[int] = SIZES) -> list[Figure]:
    """CPU time of a decision by the size of the cluster, in milliseconds of the reference machine;
    times are multiplied by `scale`.
    """
    figures = []
    for axis, policies, case in (
        ("jobs in the cluster, and one comes", COMES, arrivals),
        ("jobs in the cluster, most wait, and one ends", WAIT, departures),
    ):
        for policy in policies:
            growth = {n: [ms * scale for ms in case(policy, n)] for n in sizes}
            figures += [
                Figure(
                    f"{policy}: {5 * n} {axis}; {n} nodes, median",
                    median(took),
                    "ms",
                    BAR if n == SIZES[-1] else None,
                    x=5 * n,
                    axis=axis,
                    series=policy,
                )
                for n, took in growth.items()
            ]
            worst = max(growth[sizes[-1]])
            figures.append(Figure(f"{policy}: the slowest of those", worst, "ms", BAR))
    return figures


def arrivals(policy: str, nodes: int, count: int = 20) -> list[float]:
    """Five jobs on every node, and another comes, again and again."""
    dice, timed = Random(1), Timed(build(policy))
    backend = MemoryBackend(_nodes(nodes))
    for i in range(5 * nodes):
        _run(backend, _job(f"job-{i}", dice), NodeId(f"node-{i % nodes}"))
    return _measure(backend, timed, count, lambda i: backend.submit(_job(f"new-{i}", dice)))


def departures(policy: str, nodes: int, count: int = 20) -> list[float]:
    """Every GPU is taken, gangs of all sizes wait, and a job ends, again and again."""
    dice, timed = Random(1), Timed(build(policy))
    backend = MemoryBackend(_nodes(nodes))
    for i in range(nodes):
        _run(backend, _job(f"job-{i}", dice, devices=4), NodeId(f"node-{i}"))
    for i in range(4 * nodes):
        backend.submit(_job(f"wait-{i}", dice, devices=dice.choice([1, 2, 4, 8, 16])))
    ends = min(count, nodes)
    return _measure(backend, timed, ends, lambda i: backend.end(JobId(f"job-{i}")))


class Timed:
    """A policy whose decisions are timed."""

    def __init__(self, inner: Policy[Any]) -> None:
        self.inner, self.name, self.listens = inner, inner.name, inner.listens
        self.took: list[float] = []

    def begin(self) -> Any:
        return self.inner.begin()

    def decide(self, snapshot: Snapshot, memory: Any) -> tuple[Plan, Any]:
        began = process_time()
        found = self.inner.decide(snapshot, memory)
        self.took.append(1000 * (process_time() - began))
        return found


def _measure(
    backend: MemoryBackend, timed: Timed, count: int, happen: Callable[[int], None]
) -> list[float]:
    """Milliseconds of each decision after the first, which sees everything for the first time."""
    loop = Loop(backend, timed, NoJournal())
    gc.collect()
    gc.disable()
    try:
        for i in range(count):
            loop.step(Trigger.NODE)
            backend.settle()
            backend.now += 1.0
            happen(i)
        loop.step(Trigger.NODE)
    finally:
        gc.enable()
    return timed.took[1:]


def _nodes(count: int) -> list[Node]:
    room = Resources(cpu=16.0, memory=64 * 2.0**30, gpu=4.0)
    return [Node(id=NodeId(f"node-{i}"), capacity=room) for i in range(count)]


def _job(name: str, dice: Random, devices: int = 0) -> Job:
    task = Task()
    if devices:
        one = Resources(cpu=1.0, gpu=1.0)
        task = Task(name="worker", replicas=devices, least=devices, most=devices, request=one)
    size = Expected(work=Estimate(value=dice.uniform(600, 6000)), demand=4.0)
    spec = JobSpec(tasks=(task,), expected=size, checkpoint=Mode.SDK)
    return Job(id=JobId(name), spec=spec, submitted_at=0.0)


def _run(backend: MemoryBackend, job: Job, node: NodeId) -> None:
    """As if it had been running when we came."""
    backend.submit(replace(job, phase=Phase.RUNNING))
    for name in gang(job):
        backend.host(Replica(id=name, job=job.id, task=name.task, node=node))
