"""A run observed in detail: where jobs ran and why they moved, CPU by node, growth efficiency.

Growth efficiency follows equations 4.1 to 4.3, over whole intervals of 20 s counted from 0. For a
job that runs through an interval and the one before it, E is the mean of the losses printed in an
interval divided by the largest printed so far; P = |change of E| / 20 s; R is the mean fraction of
its node that it uses; G = P / R. The figure is the sum of G over the jobs.
"""

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from headway.core.cycle.validate import Verdict
from headway.core.model.decision import Move, Plan
from headway.core.model.snapshot import Observation, Trigger
from headway.core.model.units import JobId, NodeId, Seconds
from headway.report.run_timeline import Integral
from headway.runtime.journal import Journal
from headway.sim import timeline
from headway.sim.curve import Log
from headway.sim.timeline import Line, Stay
from headway.sim.world import World
from headway.sim.world_state import SimJob

INTERVAL: Seconds = 20.0
LEAST_USED = 0.01
"""Fraction of a node; growth is not divided by a smaller use."""
MOVED, REBALANCED = "-M", "-R"
"""The thesis' marks for a migrated job, and for one moved to rebalance the nodes."""


class MoveJournal(Journal):
    """A journal that keeps only moves, with their reasons."""

    def __init__(self) -> None:
        self.made: list[tuple[Seconds, JobId, NodeId, str]] = []

    def intend(
        self, trigger: Trigger, seen: Observation, plan: Plan, verdict: Verdict, memory: Any
    ) -> None:
        del trigger, plan, memory
        for d in verdict.accepted:
            if isinstance(d, Move):
                job = d.replica.job
                self.made.append((seen.at, job, d.to, d.reason))

    def mark(self, stay: Stay) -> str:
        """The mark of the move that led to a stay; empty if the job started there."""
        if not stay.moved_in:
            return ""
        there = (stay.job, stay.node)
        reasons = [r for at, job, to, r in self.made if (job, to) == there and at <= stay.since]
        return REBALANCED if reasons and REBALANCED in reasons[-1] else MOVED


@dataclass(frozen=True, slots=True)
class ObservedRun:
    """Plain lists, so that it can be sent from another process."""

    jobs: list[JobId]
    nodes: list[NodeId]
    cores: float
    shares: dict[JobId, Line]
    stays: list[tuple[Stay, str]]
    """Each with the mark of the move that led to it."""
    cpu: dict[NodeId, Line]
    """The used fraction of each node, as a step function."""
    growth: Line
    """Growth efficiency summed over the jobs, at the end of each interval."""
    growth_by_job: dict[JobId, Line]

    def mean_cpu(self, node: NodeId) -> float:
        """The used fraction of a node, until the last job of the run finishes."""
        line = self.cpu[node]
        end = max((at for other in self.cpu.values() for at, _ in other), default=0.0)
        used = sum(part * (b - a) for (a, part), (b, _) in pairwise(line))
        return used / end if end else 0.0

    @property
    def mean_growth(self) -> float:
        return sum(g for _, g in self.growth) / len(self.growth) if self.growth else 0.0


def observe(world: World, moves: MoveJournal) -> ObservedRun:
    """`world` is recorded, with `moves` as its journal."""
    nodes, by_job = world.scenario.nodes, _growth(world)
    return ObservedRun(
        jobs=[j.id for j in world.scenario.jobs],
        nodes=[n.id for n in nodes],
        cores=sum(n.capacity.cpu for n in nodes),
        shares=timeline.shares(world),
        stays=[(stay, moves.mark(stay)) for stay in timeline.stays(world)],
        cpu=_by_node(world),
        growth=_sum(by_job, world),
        growth_by_job=by_job,
    )


def _by_node(world: World) -> dict[NodeId, Line]:
    capacity = {n.id: n.capacity.cpu for n in world.scenario.nodes}
    lines: dict[NodeId, Line] = {name: [(0.0, 0.0)] for name in capacity}
    held: dict[NodeId, dict[str, float]] = defaultdict(dict)
    for at, replica, node, cores in world.trace or ():
        held[node][replica] = max(0.0, cores)
        line = lines[node]
        if line[-1][0] == at:
            line.pop()
        line.append((at, sum(held[node].values()) / capacity[node]))
    return lines


def _growth(world: World) -> dict[JobId, Line]:
    work, used = _spent(world)
    found: dict[JobId, Line] = {}
    for state in world.finished:
        job = state.arrival.id
        growth = _efficiency(world, state, work[job], used[job])
        found[job] = [((i + 1) * INTERVAL, g) for i, g in growth]
    return found


def _sum(by_job: dict[JobId, Line], world: World) -> Line:
    end = max((j.finished_at or 0.0 for j in world.finished), default=0.0)
    sums = dict.fromkeys(((i + 1) * INTERVAL for i in range(int(end / INTERVAL))), 0.0)
    for line in by_job.values():
        for at, g in line:
            sums[at] += g
    return list(sums.items())


def _efficiency(
    world: World, state: SimJob, work: Integral, used: Integral
) -> list[tuple[int, float]]:
    """G for each interval through which the job ran, with the index of the interval."""
    arrival = state.arrival
    log = Log(arrival.curve, arrival.steps, (world.scenario.seed, state.index))
    steps = arrival.steps / arrival.work
    began = arrival.at if state.started_at is None else state.started_at
    first, last = -int(-began // INTERVAL), int((state.finished_at or began) // INTERVAL)
    growth, largest, before = [], 0.0, None
    for i in range(first, last):
        since, until = i * INTERVAL, (i + 1) * INTERVAL
        largest = max(largest, (log.between(0.0, work.at(until) * steps) or (0.0, 0.0))[1])
        losses = log.between(work.at(since) * steps, work.at(until) * steps)
        fraction = (used.at(until) - used.at(since)) / INTERVAL
        if losses and before and largest > 0 and fraction >= LEAST_USED:
            growth.append((i, abs(losses[0] - before[0]) / largest / INTERVAL / fraction))
        before = losses
    return growth


def _spent(world: World) -> tuple[dict[JobId, Integral], dict[JobId, Integral]]:
    """By job: the work done, and the fraction of its node used, over time."""
    nodes = {n.id: n for n in world.scenario.nodes}
    work: dict[JobId, Line] = defaultdict(list)
    used: dict[JobId, Line] = defaultdict(list)
    for at, replica, name, cores in world.trace or ():
        job, node, now = replica.job, nodes[name], max(0.0, cores)
        work[job].append((at, now * node.speed))
        used[job].append((at, now / node.capacity.cpu))
    return (
        {j: Integral(line) for j, line in work.items()},
        {j: Integral(line) for j, line in used.items()},
    )
