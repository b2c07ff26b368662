"""CPU time of one decision, by the number of jobs on a node and by the size of a cluster."""

import gc
from collections.abc import Callable, Sequence
from math import log10
from pathlib import Path
from random import Random
from statistics import median
from time import process_time
from typing import Any

from headway.backend.live import LiveBackend
from headway.backend.memory import MemoryPlatform
from headway.bench.figure import Figure
from headway.bench.promises import Row, workload
from headway.core.cycle.policy import Chain, PerNode, Policy
from headway.core.model.decision import Plan
from headway.core.model.job import Estimate, Expected, JobSpec, Mode, Task
from headway.core.model.node import Node
from headway.core.model.snapshot import Snapshot, Trigger
from headway.core.model.units import JobId, NodeId, ReplicaId, Resources
from headway.metrics.reader import ReplicaMetrics
from headway.policy.placement.even import Even
from headway.policy.registry import build
from headway.policy.share.headway import Headway
from headway.runtime.garbage import no_collector
from headway.runtime.journal import Journal
from headway.runtime.loop import Loop
from headway.sim.build import to_scenario
from headway.sim.driver import simulate
from headway.spec.runnable import RunnableJob

SIZES = (10, 30, 100, 300, 1000)
"""Nodes; there are five jobs for each node."""
DECISIONS = 1000
"""Decisions of which the median is taken, on one node."""
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


def _decision_ms(jobs: int) -> float:
    """Median over decisions while at least 80 % of the jobs run."""
    timed = TimedPolicy(Headway(), counts=lambda snapshot: len(snapshot.running) >= 0.8 * jobs)
    for seed in range(8):
        row = Row(name="", mean=1, worst=1)
        simulate(to_scenario(workload(row, jobs), seed=seed), Chain(Even(), PerNode(timed)))
        if len(timed.took) >= DECISIONS:
            break
    return median(timed.took[:DECISIONS])


def bench_cluster(scale: float, sizes: Sequence[int] = SIZES) -> list[Figure]:
    """Milliseconds of a decision by the size of the cluster."""
    figures = []
    for axis, policies, case in (
        ("jobs in the cluster, one arrives", ARRIVAL_POLICIES, arrivals),
        ("jobs in the cluster, most pending, one ends", DEPARTURE_POLICIES, departures),
    ):
        for policy in policies:
            gc.collect()  # garbage of other cases does not count
            with no_collector():
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
    dice, cluster = Random(1), _Cluster(nodes)
    for i in range(5 * nodes):
        cluster.host(_job(f"job-{i}", dice), NodeId(f"node-{i % nodes}"))
    return cluster.measure(policy, count, lambda i: cluster.submit(_job(f"new-{i}", dice)))


def departures(policy: str, nodes: int, count: int = 20) -> list[float]:
    """Milliseconds of each decision after a job ends; no GPU is free and gangs are pending."""
    dice, cluster = Random(1), _Cluster(nodes)
    for i in range(nodes):
        cluster.host(_job(f"job-{i}", dice, devices=4), NodeId(f"node-{i}"))
    for i in range(4 * nodes):
        cluster.submit(_job(f"wait-{i}", dice, devices=dice.choice([1, 2, 4, 8, 16])))
    return cluster.measure(policy, min(count, nodes), lambda i: cluster.end(JobId(f"job-{i}")))


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


class _Platform(MemoryPlatform):
    """Its replicas have no files here, as on Kubernetes."""

    def metrics(self, replica: ReplicaId, attempt: int) -> ReplicaMetrics:  # type: ignore[override]
        del replica, attempt
        return ReplicaMetrics()


class _Cluster:
    """A live backend over records, and a clock that stands still."""

    def __init__(self, nodes: int) -> None:
        room = Resources(cpu=16.0, memory=64 * 2.0**30, gpu=4.0)
        names = (NodeId(f"node-{i}") for i in range(nodes))
        self.platform = _Platform.of(Node(id=n, capacity=room) for n in names)
        self.jobs: dict[JobId, RunnableJob] = {}
        self.now = 0.0
        self.backend: LiveBackend | None = None

    def __call__(self) -> float:
        return self.now

    def submit(self, job: RunnableJob) -> None:
        if self.backend is None:
            self.jobs[job.id] = job
        else:
            self.backend.submit(job)

    def host(self, job: RunnableJob, node: NodeId) -> None:
        """It runs already."""
        self.submit(job)
        task = job.spec.tasks[0]
        names = (ReplicaId.of(job.id, task.name, i) for i in range(task.replicas))
        self.platform.host(job.id, [(name, node) for name in names])

    def end(self, job: JobId) -> None:
        for name in list(self._live.controller.jobs[job].replicas):
            self.platform.exit(name)

    @property
    def _live(self) -> LiveBackend:
        assert self.backend is not None  # noqa: S101 - the type checker's
        return self.backend

    def measure(self, policy: str, count: int, happen: Callable[[int], None]) -> list[float]:
        """Milliseconds of each decision after the first, which sees everything as new."""
        timed = TimedPolicy(build(policy))
        self.backend = LiveBackend(self.platform, Path("nowhere"), self.jobs, self)
        loop = Loop(self.backend, timed, Journal())
        for i in range(count):
            self._settle()
            loop.step(Trigger.NODE)
            self._settle()
            self.now += 1.0
            happen(i)
        self._settle()
        loop.step(Trigger.NODE)
        return timed.took[1:]

    def _settle(self) -> None:
        """Let what is under way arrive."""
        self._live.wait(0.0)
        while not self.platform.settled:
            self._live.wait(0.0)


def _job(name: str, dice: Random, devices: int = 0) -> RunnableJob:
    task = Task()
    if devices:
        one = Resources(cpu=1.0, gpu=1.0)
        task = Task(name="worker", replicas=devices, least=devices, most=devices, request=one)
    size = Expected(work=Estimate(value=dice.uniform(600, 6000)), demand=4.0)
    spec = JobSpec(tasks=(task,), expected=size, checkpoint=Mode.SDK)
    return RunnableJob(id=JobId(name), at=0.0, spec=spec, commands={})
