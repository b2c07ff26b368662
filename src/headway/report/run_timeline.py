"""The timeline of a simulated or real run: CPU shares, stays on nodes, reported values."""

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from math import inf
from typing import Any

from headway.core.model.job import Phase
from headway.core.model.units import Cores, JobId, NodeId, ReplicaId, Seconds
from headway.runtime import journal
from headway.runtime.foreign_use import foreign_line, node_changes
from headway.runtime.job_status import finite
from headway.runtime.run_directory import RunDirectory
from headway.runtime.usage_sampler import samples
from headway.sim import timeline
from headway.sim.timeline import Line, Stay
from headway.sim.world import World


@dataclass(frozen=True, slots=True)
class RunTimeline:
    jobs: list[JobId]
    """In order of arrival."""
    cores: Cores
    nodes: list[NodeId]
    shares: dict[JobId, Line]
    stays: list[Stay]
    values: dict[JobId, Line]
    foreign: Line = field(default_factory=list)
    """Cores used by processes outside Headway; empty: none."""


class Integral:
    """The integral of a step function from its first time to any later one."""

    def __init__(self, line: Line) -> None:
        self._line = line
        areas = (value * (b - a) for (a, value), (b, _) in pairwise(line))
        self._sums = list(accumulate(areas, initial=0.0))

    def at(self, moment: Seconds) -> float:
        i = bisect_right(self._line, moment, key=lambda point: point[0]) - 1
        if i < 0:
            return 0.0
        since, value = self._line[i]
        return self._sums[i] + value * (moment - since)


def world_timeline(world: World) -> RunTimeline:
    nodes = world.scenario.nodes
    return RunTimeline(
        jobs=[j.id for j in world.scenario.jobs],
        cores=sum(n.capacity.cpu for n in nodes),
        nodes=[n.id for n in nodes],
        shares=timeline.shares(world),
        stays=timeline.stays(world),
        values=timeline.values(world),
        foreign=_used(foreign_line(world.hosts.foreign), world.now),
    )


def _used(line: Line, end: Seconds) -> Line:
    return [*line, (end, 0.0)] if any(cores for _, cores in line) else []


def read_timeline(folder: RunDirectory) -> RunTimeline:
    """The timeline of a real run, finished or not, from its directory."""
    cycles = list(journal.read(folder.journal))
    nodes = {n.id: n.capacity.cpu for c in cycles for n in c["seen"].nodes}
    jobs: dict[JobId, Seconds | None] = {}
    for cycle in cycles:
        for job in cycle["seen"].jobs:
            jobs[job.id] = cycle["at_s"] if job.phase.ended else None
    last = cycles[-1]["at_s"] if cycles else 0.0
    ends = {job: last if end is None else end for job, end in jobs.items()}
    shares, values = _sampled(folder, ends)
    return RunTimeline(
        jobs=list(jobs),
        cores=sum(nodes.values()),
        nodes=list(nodes),
        shares=shares,
        stays=_stays(cycles, last),
        values=values,
        foreign=_used(foreign_line(node_changes(cycles)), last),
    )


def _sampled(
    folder: RunDirectory, ends: dict[JobId, Seconds]
) -> tuple[dict[JobId, Line], dict[JobId, Line]]:
    """Cores of each job as a step function that ends at 0, and its reported values."""
    shares: dict[JobId, Line] = defaultdict(list)
    values: dict[JobId, Line] = defaultdict(list)
    before = 0.0
    for sample in samples(folder.usage):
        cores: dict[JobId, float] = defaultdict(float)
        for replica, now in sample["replicas"].items():
            job = ReplicaId(replica).job
            cores[job] += now["cpu"]
            if finite(now.get("value")) is not None:
                values[job].append((sample["at_s"], now["value"]))
        for replica, last in sample.get("ended", {}).items():
            if finite(last.get("value")) is not None:
                job = ReplicaId(replica).job
                at = min(sample["at_s"], ends.get(job, inf))
                values[job].append((at, last["value"]))
        for job, used in cores.items():
            shares[job].append((before, used))
        before = sample["at_s"]
    for job, line in shares.items():
        line.append((max(ends.get(job, before), line[-1][0]), 0.0))
    return dict(shares), dict(values)


def _stays(cycles: list[dict[str, Any]], last: Seconds) -> list[Stay]:
    """The stays of each replica on each node, as observed. A replica has moved to a node only if
    the node was its destination: a retry is no move.
    """
    open_: dict[ReplicaId, tuple[Seconds, NodeId, bool]] = {}
    bound_for: dict[ReplicaId, NodeId | None] = {}
    found: list[Stay] = []

    def close(name: ReplicaId, at: Seconds) -> None:
        since, node, moved = open_.pop(name)
        found.append(Stay(name, node, since, at, moved_in=moved))

    for cycle in cycles:
        at, seen = cycle["at_s"], cycle["seen"]
        for r in seen.replicas:
            here = None if r.phase.ended or r.phase is Phase.PENDING else r.node
            if r.id in open_ and open_[r.id][1] != here:
                close(r.id, at)
            if here is not None and r.id not in open_:
                open_[r.id] = (at, here, bound_for.get(r.id) == here)
            bound_for[r.id] = r.bound_for
        ended = {j.id for j in seen.jobs if j.phase.ended}
        for name in [n for n in open_ if n.job in ended]:
            close(name, at)
    for name in list(open_):
        close(name, last)
    return sorted(found, key=lambda s: s.since)
