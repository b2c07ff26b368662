"""Timelines of a recorded run: shares, stays on nodes, reported values.

A trace is a list of (time, replica, node, cores): from then on the replica has so many cores there;
`LEFT`: it has left.
"""

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

from headway.core.model.units import Cores, JobId, NodeId, ReplicaId, Seconds
from headway.sim.curve import Log
from headway.sim.hosts import LEFT
from headway.sim.world import World

Line = list[tuple[Seconds, float]]
POINTS = 60


@dataclass(frozen=True, slots=True)
class Stay:
    """A replica on a node, from its first use until it left."""

    replica: ReplicaId
    node: NodeId
    since: Seconds
    until: Seconds
    moved_in: bool

    @property
    def job(self) -> JobId:
        return self.replica.job


def shares(world: World) -> dict[JobId, Line]:
    """Return the cores of each job over time, as a step function that ends at 0."""
    held: dict[tuple[str, str], Cores] = {}
    total: dict[JobId, Cores] = defaultdict(float)
    lines: dict[JobId, Line] = {}
    for at, replica, node, cores in world.trace or ():
        job = replica.job
        now = max(0.0, cores)
        total[job] += now - held.get((replica, node), 0.0)
        held[replica, node] = now
        line = lines.setdefault(job, [])
        if line and line[-1][0] == at:
            line.pop()
        line.append((at, max(0.0, total[job])))
    return lines


def stays(world: World) -> list[Stay]:
    """Return all stays in order of their start."""
    open_: dict[tuple[ReplicaId, NodeId], tuple[Seconds, bool]] = {}
    before: set[str] = set()
    found: list[Stay] = []
    for at, replica, node, cores in world.trace or ():
        key = (replica, node)
        if cores == LEFT:
            if key in open_:
                since, moved = open_.pop(key)
                found.append(Stay(replica, node, since, at, moved))
        elif key not in open_:
            open_[key] = (at, replica in before)
            before.add(replica)
    return sorted(found, key=lambda s: s.since)


def values(world: World) -> dict[JobId, Line]:
    """Return the values of each job over time: means over intervals of equal numbers of steps."""
    lines: dict[JobId, Line] = {}
    shared = shares(world)
    for state in world.finished:
        arrival = state.arrival
        log = Log(arrival.curve, arrival.steps, (world.scenario.seed, state.index))
        line: Line = []
        steps = [i * arrival.steps / POINTS for i in range(POINTS + 1)]
        moments = _when(shared.get(arrival.id, []), state.done, steps, arrival.steps)
        for i, at in enumerate(moments[1:], 1):
            found = log.between(steps[i - 1], steps[i])
            if found and at is not None:
                line.append((at, found[0]))
        lines[arrival.id] = line
    return lines


def _when(line: Line, work: float, steps: list[float], total: float) -> list[Seconds | None]:
    """Return when each of these steps was reached, from the share of the job over time."""
    area = sum(c * (b - a) for (a, c), (b, _) in pairwise(line))
    if not area or not work:
        return [None] * len(steps)
    out: list[Seconds | None] = []
    spent, i = 0.0, 0
    for step in steps:
        goal = step / total * area
        while i < len(line) - 1:
            (a, cores), (b, _) = line[i], line[i + 1]
            if spent + cores * (b - a) >= goal - 1e-9:
                break
            spent += cores * (b - a)
            i += 1
        at, cores = line[i]
        out.append(at + (goal - spent) / cores if cores > 0 else at)
    return out
