"""CPU time of one decision, by the number of jobs on a node and by the size of a cluster."""

import gc
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import log10
from random import Random
from statistics import median
from time import process_time
from typing import Any

from headway.backend.memory import MemoryBackend
from headway.bench.figure import Figure
from headway.bench.promises import Row, workload
from headway.core.cycle.policy import Chain, PerNode, Policy
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
from headway.policy.placement.spread import Spread
from headway.policy.registry import build
from headway.policy.share.headway import Headway
from headway.runtime.journal import NoJournal
from headway.runtime.loop import Loop
from headway.sim.build import to_scenario
from headway.sim.driver import simulate

SIZES = (10, 30, 100, 300, 1000)
"""Nodes; there are five jobs for each node."""
BAR = 50.0
"""Milliseconds, with a thousand nodes and five thousand jobs."""
ARRIVAL_POLICIES = ("fair", "headway", "flowcon2", "fifo", "tiresias", "dragon", "kips")
DEPARTURE_POLICIES = (
    "spread",
    "fifo",
    "tiresias",
    "gang",
    "gang+locality",
    "dragon",
    "kips",
    "optimus",
)


def bench_decide(scale: float) -> list[Figure]:
    """A decision of `headway` on one node, and of every policy in a cluster."""
    costs = {n: _decision_ms(n) * scale for n in (5, 10, 20, 50, 100)}
    return [
        *(
            Figure(f"a decision for {n} jobs, median", ms, "ms", 5.0 if n == 50 else None, x=n)
            for n, ms in costs.items()
        ),
        Figure("growth from 10 to 100 jobs: exponent", log10(costs[100] / costs[10]), ""),
        *bench_cluster(scale),
    ]


def _decision_ms(jobs: int, most: int = 1000) -> float:
    """Median over decisions while at least 80 % of the jobs run."""
    timed = TimedPolicy(Headway(), counts=lambda snapshot: len(snapshot.running) >= 0.8 * jobs)
    for seed in range(8):
        row = Row(name="", jobs=jobs, mean=1, makespan=1, worst=1)
        simulate(to_scenario(workload(row), seed=seed), Chain(Spread(), PerNode(timed)))
        if len(timed.took) >= most:
            break
    return median(timed.took[:most])


def bench_cluster(scale: float, sizes: Sequence[int] = SIZES) -> list[Figure]:
    """Milliseconds of a decision by the size of the cluster."""
    figures = []
    for axis, policies, case in (
        ("jobs in the cluster, one arrives", ARRIVAL_POLICIES, arrivals),
        ("jobs in the cluster, most pending, one ends", DEPARTURE_POLICIES, departures),
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
            figures.append(Figure(f"{policy}: slowest of these", worst, "ms", BAR))
    return figures


def arrivals(policy: str, nodes: int, count: int = 20) -> list[float]:
    """Milliseconds of each decision after an arrival, with five jobs on every node."""
    dice, timed = Random(1), TimedPolicy(build(policy))
    backend = MemoryBackend(_nodes(nodes))
    for i in range(5 * nodes):
        _run(backend, _job(f"job-{i}", dice), NodeId(f"node-{i % nodes}"))
    return _measure(backend, timed, count, lambda i: backend.submit(_job(f"new-{i}", dice)))


def departures(policy: str, nodes: int, count: int = 20) -> list[float]:
    """Milliseconds of each decision after a job ends; no GPU is free and gangs are pending."""
    dice, timed = Random(1), TimedPolicy(build(policy))
    backend = MemoryBackend(_nodes(nodes))
    for i in range(nodes):
        _run(backend, _job(f"job-{i}", dice, devices=4), NodeId(f"node-{i}"))
    for i in range(4 * nodes):
        backend.submit(_job(f"wait-{i}", dice, devices=dice.choice([1, 2, 4, 8, 16])))
    ends = min(count, nodes)
    return _measure(backend, timed, ends, lambda i: backend.end(JobId(f"job-{i}")))


class TimedPolicy:
    """Measures the CPU milliseconds of each decision of a policy on a snapshot that counts."""

    def __init__(
        self, inner: Policy[Any], counts: Callable[[Snapshot], bool] = lambda snapshot: True
    ) -> None:
        self.inner, self.name, self.listens = inner, inner.name, inner.listens
        self.counts = counts
        self.took: list[float] = []

    def begin(self) -> Any:
        return self.inner.begin()

    def decide(self, snapshot: Snapshot, memory: Any) -> tuple[Plan, Any]:
        began = process_time()
        found = self.inner.decide(snapshot, memory)
        if self.counts(snapshot):
            self.took.append(1000 * (process_time() - began))
        return found


def _measure(
    backend: MemoryBackend, timed: TimedPolicy, count: int, event: Callable[[int], None]
) -> list[float]:
    """Milliseconds of each decision after the first, which observes the whole cluster."""
    loop = Loop(backend, timed, NoJournal())
    gc.collect()
    gc.disable()
    try:
        for i in range(count):
            loop.step(Trigger.NODE)
            backend.settle()
            backend.now += 1.0
            event(i)
        loop.step(Trigger.NODE)
    finally:
        gc.enable()
    return timed.took[1:]


def _nodes(count: int) -> list[Node]:
    capacity = Resources(cpu=16.0, memory=64 * 2.0**30, gpu=4.0)
    return [Node(id=NodeId(f"node-{i}"), capacity=capacity) for i in range(count)]


def _job(name: str, dice: Random, devices: int = 0) -> Job:
    task = Task()
    if devices:
        one = Resources(cpu=1.0, gpu=1.0)
        task = Task(name="worker", replicas=devices, least=devices, most=devices, request=one)
    size = Expected(work=Estimate(value=dice.uniform(600, 6000)), demand=4.0)
    spec = JobSpec(tasks=(task,), expected=size, checkpoint=Mode.SDK)
    return Job(id=JobId(name), spec=spec, submitted_at=0.0)


def _run(backend: MemoryBackend, job: Job, node: NodeId) -> None:
    """Submit a job that already runs."""
    backend.submit(replace(job, phase=Phase.RUNNING))
    for name in gang(job):
        backend.host(Replica(id=name, job=job.id, task=name.task, node=node))
