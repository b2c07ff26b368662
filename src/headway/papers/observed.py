"""One run watched closely: who was where and why it moved, CPU by node, growth efficiency.

Growth efficiency is that of equations 4.1 to 4.3, over whole intervals of 20 s counted from 0.
For a job that ran through this interval and the one before it, E is the mean of the losses it
printed in an interval, over the largest it has printed so far; P = |change of E| / 20 s, R the
mean part of its node that it used, G = P / R. The figure is the sum of G over the jobs.
"""

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from headway.core.cycle.validate import Verdict
from headway.core.model.decision import Move, Outcome, Plan
from headway.core.model.snapshot import Observation, Trigger
from headway.core.model.units import JobId, NodeId, Seconds
from headway.sim import timeline
from headway.sim.curve import Log
from headway.sim.state import JobState
from headway.sim.timeline import Line, Stay
from headway.sim.world import World

INTERVAL: Seconds = 20.0
LEAST_USED = 0.01
"""Part of a node below which a use is too small to divide by."""
MOVED, REBALANCED = "-M", "-R"
"""The thesis' marks for a job that was migrated, and for one that was moved to even out."""


class Moves:
    """A journal that keeps moves alone, with their reasons."""

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

    def settle(self, outcomes: tuple[Outcome, ...]) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Watched:
    """As plain lists, so that it can come from another process."""

    jobs: list[JobId]
    nodes: list[NodeId]
    cores: float
    shares: dict[JobId, Line]
    stays: list[tuple[Stay, str]]
    """With the mark of how it came there."""
    cpu: dict[NodeId, Line]
    """Part of each node that is used, as a step function."""
    growth: Line
    """Sum of the jobs' growth efficiency, by the end of each interval."""

    def mean_cpu(self, node: NodeId) -> float:
        """Of what a node has, until the last job of all has ended."""
        line = self.cpu[node]
        end = max((at for other in self.cpu.values() for at, _ in other), default=0.0)
        used = sum(part * (b - a) for (a, part), (b, _) in pairwise(line))
        return used / end if end else 0.0

    @property
    def mean_growth(self) -> float:
        return sum(g for _, g in self.growth) / len(self.growth) if self.growth else 0.0


def watch(world: World, moves: Moves) -> Watched:
    """`world` was recorded, with `moves` for its journal."""
    nodes = world.scenario.nodes
    return Watched(
        jobs=[j.id for j in world.scenario.jobs],
        nodes=[n.id for n in nodes],
        cores=sum(n.capacity.cpu for n in nodes),
        shares=timeline.shares(world),
        stays=[(stay, _mark(stay, moves)) for stay in timeline.stays(world)],
        cpu=_by_node(world),
        growth=_growth(world),
    )


def _mark(stay: Stay, moves: Moves) -> str:
    if not stay.moved_in:
        return ""
    why = [r for at, job, to, r in moves.made if (job, to) == (stay.job, stay.node) and
           at <= stay.since]  # fmt: skip
    return REBALANCED if why and REBALANCED in why[-1] else MOVED


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


def _growth(world: World) -> Line:
    ends = [j.finished_at or 0.0 for j in world.finished]
    count = int(max(ends, default=0.0) / INTERVAL)
    sums = [0.0] * count
    work, used = _spent(world)
    for state in world.finished:
        for i, g in _efficiency(world, state, work[state.arrival.id], used[state.arrival.id]):
            sums[i] += g
    return [((i + 1) * INTERVAL, g) for i, g in enumerate(sums)]


def _efficiency(
    world: World, state: JobState, work: "Total", used: "Total"
) -> list[tuple[int, float]]:
    """G for each interval, by its number, through which the job ran."""
    arrival = state.arrival
    log = Log(arrival.curve, arrival.steps, (world.scenario.seed, state.index))
    steps = arrival.steps / arrival.work
    began = arrival.at if state.started_at is None else state.started_at
    first, last = -int(-began // INTERVAL), int((state.finished_at or began) // INTERVAL)
    found, largest, before = [], 0.0, None
    for i in range(first, last):
        since, until = i * INTERVAL, (i + 1) * INTERVAL
        largest = max(largest, (log.between(0.0, work.at(until) * steps) or (0.0, 0.0))[1])
        said = log.between(work.at(since) * steps, work.at(until) * steps)
        part = (used.at(until) - used.at(since)) / INTERVAL
        if said and before and largest > 0 and part >= LEAST_USED:
            found.append((i, abs(said[0] - before[0]) / largest / INTERVAL / part))
        before = said
    return found


class Total:
    """What has been spent by a moment, from a step function of rates."""

    def __init__(self, line: Line) -> None:
        self._at = [at for at, _ in line]
        self._rate = [rate for _, rate in line]
        spent = (rate * (b - a) for (a, rate), (b, _) in pairwise(line))
        self._sum = list(accumulate(spent, initial=0.0))

    def at(self, moment: Seconds) -> float:
        i = bisect_right(self._at, moment) - 1
        if i < 0:
            return 0.0
        return self._sum[i] + self._rate[i] * (moment - self._at[i])


def _spent(world: World) -> tuple[dict[JobId, Total], dict[JobId, Total]]:
    """By job: the work it did, and the part of its node that it used."""
    nodes = {n.id: n for n in world.scenario.nodes}
    work: dict[JobId, Line] = defaultdict(list)
    used: dict[JobId, Line] = defaultdict(list)
    for at, replica, name, cores in world.trace or ():
        job, node, now = replica.job, nodes[name], max(0.0, cores)
        work[job].append((at, now * node.speed))
        used[job].append((at, now / node.capacity.cpu))
    return (
        {j: Total(line) for j, line in work.items()},
        {j: Total(line) for j, line in used.items()},
    )
