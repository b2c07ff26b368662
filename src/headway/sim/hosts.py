"""The simulated nodes: the replicas on them, how they share CPU, and what has changed."""

from collections.abc import Iterator
from math import inf

from headway.core.fairness.water_filling import share
from headway.core.model.job import Phase
from headway.core.model.report import Report
from headway.core.model.snapshot import Observation
from headway.core.model.units import Cores, NodeId, ReplicaId, Seconds
from headway.sim.event_queue import FINISH, FOREIGN, EventQueue
from headway.sim.scenario import Scenario
from headway.sim.world_state import SimJob, SimNode, SimReplica

Changes = Iterator[tuple[Seconds, Cores]]
"""Times, and the cores that processes outside Headway use from then on."""
LEFT = -1.0
"""In a trace: the replica has left the node."""


class Hosts:
    """Rates change only on nodes where something changed ("dirty"). Each node has one event in the
    queue, for the first of its jobs to finish.
    """

    def __init__(self, scenario: Scenario, events: EventQueue, *, record: bool) -> None:
        self.events = events
        lost = scenario.sharing, scenario.contention, scenario.oversubscription
        self.lost = lost if any(lost) else None
        """What sharing a node costs, if it costs anything."""
        self.nodes = {n.id: SimNode(n) for n in scenario.nodes}
        self.replicas: dict[ReplicaId, SimReplica] = {}
        self.trace: list[tuple[Seconds, ReplicaId, NodeId, float]] | None = [] if record else None
        self.foreign: list[tuple[Seconds, NodeId, Cores]] = []
        """Changes so far of what processes outside Headway use."""
        self.dirty: dict[SimNode, None] = {}
        self.changed_nodes: dict[SimNode, None] = {}
        self.changed_jobs: dict[SimJob, None] = {}
        self.changed_replicas: dict[SimReplica, None] = {}
        self._reporting: dict[SimNode, None] = {}
        """Nodes on which replicas started or left, whose replicas report."""
        self._observed = False

    # -- observation -----------------------------------------------------------------------------

    def observe(self, now: Seconds, look: tuple[NodeId, ...], *, reports: bool) -> Observation:
        """Return what changed since the last observation; the first one is complete."""
        reporting, self._reporting = self._reporting, {}
        found = self._reports(now, reporting, look) if reports else ()
        nodes, jobs, replicas = self.changed_nodes, self.changed_jobs, self.changed_replicas
        self.changed_nodes, self.changed_jobs, self.changed_replicas = {}, {}, {}
        complete, self._observed = not self._observed, True
        return Observation(
            at=now,
            complete=complete,
            nodes=tuple([n.to_core() for n in (self.nodes.values() if complete else nodes)]),
            jobs=tuple([j.to_core() for j in jobs]),
            replicas=tuple([r.to_core() for r in replicas]),
            reports=found,
        )

    def _reports(
        self, now: Seconds, nodes: dict[SimNode, None], look: tuple[NodeId, ...]
    ) -> tuple[Report, ...]:
        nodes.update((self.nodes[name], None) for name in look)
        replicas = (r for node in nodes for r in node.replicas.values())
        reports = []
        for r in dict.fromkeys(r for r in replicas if r.phase is Phase.RUNNING):
            r.job.advance(now)
            if r.job.announce(now):
                self.changed_jobs[r.job] = None
            reports.append(r.report(now))
        return tuple([r for r in reports if r is not None])

    # -- replicas on nodes -----------------------------------------------------------------------

    def place(self, job: SimJob, name: ReplicaId, node: SimNode, now: Seconds) -> None:
        replica = self.replicas.get(name)
        if replica is None:
            replica = self.replicas[name] = SimReplica(name, job, node, now)
        else:
            replica.restarted = True
        job.idle.pop(name, None)
        replica.node, replica.phase = node, Phase.STARTING
        replica.reported_at, replica.reported_done = now, job.done
        replica.placed_at, replica.placed_used = now, replica.used
        job.replicas[name] = node.replicas[name] = replica
        self.dirty[node] = self._reporting[node] = None

    def remove(self, r: SimReplica, phase: Phase, now: Seconds) -> None:
        for node in (r.node, r.bound_for):
            if node is not None:
                del node.replicas[r.id]
                self.dirty[node] = self._reporting[node] = None
        if self.trace is not None:
            self.record(r, LEFT, now)
        r.add_to_totals(now)
        r.node, r.bound_for, r.cores, r.phase = None, None, 0.0, phase
        self.changed_replicas[r] = None
        if phase.ended:
            del self.replicas[r.id]

    def stop_using(self, job: SimJob, now: Seconds) -> None:
        """Let the replicas of a job hold their nodes without using CPU."""
        for r in job.replicas.values():
            r.cores = 0.0
            self.record(r, 0.0, now)
            for node in (r.node, r.bound_for):
                if node is not None:
                    self.mark_dirty(node)

    def arrive(self, job: SimJob, now: Seconds) -> None:
        """End the migrations of a job: its replicas leave their old nodes."""
        for r in job.replicas.values():
            if r.bound_for is not None and r.node is not None:
                del r.node.replicas[r.id]
                self.mark_dirty(r.node)
                self.record(r, LEFT, now)
                r.node, r.bound_for = r.bound_for, None
            assert r.node is not None  # noqa: S101 - for the type checker
            self.mark_dirty(r.node)

    def set_phase(self, job: SimJob, phase: Phase) -> None:
        job.phase = phase
        self.changed_jobs[job] = None
        for r in job.replicas.values():
            r.phase = phase
            self.changed_replicas[r] = None

    def mark_dirty(self, node: SimNode) -> None:
        self.dirty[node] = self._reporting[node] = None

    def record(self, r: SimReplica, cores: float, now: Seconds) -> None:
        if self.trace is not None and r.node is not None:
            self.trace.append((now, r.id, r.node.node.id, cores))

    # -- foreign load ----------------------------------------------------------------------------

    def next_foreign(self, node: SimNode, changes: Changes) -> None:
        for at, cores in changes:
            self.events.push(at, FOREIGN, (at, node, cores, changes))
            return

    def set_foreign(self, change: tuple[Seconds, SimNode, Cores, Changes]) -> None:
        now, node, cores, changes = change
        node.set_foreign(cores)
        self.foreign.append((now, node.node.id, cores))
        self.mark_dirty(node)
        self.changed_nodes[node] = None
        self.next_foreign(node, changes)

    # -- CPU -------------------------------------------------------------------------------------

    def share_cpu(self, now: Seconds) -> None:
        """Share the CPU again on each node where something changed."""
        if not self.dirty:
            return
        dirty, self.dirty = self.dirty, {}
        changed: dict[SimJob, None] = {}
        for node in dirty:
            self._share(node, changed, now)
        for job in changed:
            job.set_rate()
        for node in dirty:
            ends = [r.job.ends_at for r in node.replicas.values()]
            first = min(ends) if ends else inf
            if first != node.due or first <= now:
                node.due = first
                node.version += 1
                if first < inf:
                    self.events.push(max(first, now), FINISH, node)

    def _share(self, node: SimNode, changed: dict[SimJob, None], now: Seconds) -> None:
        running = Phase.RUNNING
        active = [r for r in node.replicas.values() if r.phase is running and r.node is node]
        if not active:
            return
        caps = [r.demand if r.limit is None else min(r.limit, r.demand) for r in active]
        given, wanted, capacity = caps, sum(caps), node.cores
        if self.lost and len(active) > 1:
            sharing, contention, beyond = self.lost
            lost = sharing + contention * (len(active) - 1)
            capacity /= 1 + lost + beyond * max(0.0, wanted / node.cores - 1)
        if wanted > capacity:
            given = share(capacity, caps, [r.weight for r in active])
        for r, cores in zip(active, given, strict=True):
            if cores != r.cores:
                r.job.advance(now)
                r.cores = cores
                changed[r.job] = None
                if self.trace is not None:
                    self.record(r, cores, now)
