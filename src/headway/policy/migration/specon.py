"""SpeCon: converged jobs migrate to nodes with less competition (Algorithms 3, 4 and 5).

In the paper, workers categorize their containers and send heartbeats and requests to a manager.
Here one policy sees the whole cluster, and messages are entries of its memory. The paper mode
follows the text, with its misprints resolved as in docs/papers/specon.md; each difference of the
corrected mode is a switch, explained in docs/decisions/0017.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import ceil, exp, floor, log

from headway.core.cycle.cluster_state import ClusterState, assemble, remember
from headway.core.cycle.project import project
from headway.core.cycle.validate import check
from headway.core.estimate.category import WEIGHTS, Category, by_growth
from headway.core.estimate.progress import paper_progress, progress
from headway.core.estimate.trend import Trend
from headway.core.model.decision import CALM, Decision, Move, Plan
from headway.core.model.job import Mode, Phase, Replica
from headway.core.model.node import Node
from headway.core.model.serialization import memory, record
from headway.core.model.snapshot import Observation, Snapshot, Trigger
from headway.core.model.units import SLACK, NodeId, ReplicaId, Seconds
from headway.policy.placement.spread import Spread

MIGRATION: Seconds = 1.1
STAY: Seconds = 0.1
"""Time that the authors' manager takes to answer either way (their published trace)."""
FARTHEST = 700.0
"""Largest exponent of e that is a number; a trend can exceed it after a long suspension."""


@memory
class Judged:
    """What is known of one replica. Migrations and restarts do not end it."""

    category: Category = Category.GROWING
    growth: float | None = None
    """G at the last tick; None: unknown."""
    migrated: bool = False
    """Whether its request was answered, by a migration or by `stay`."""
    rebalanced: bool = False
    answered_at: Seconds = 0.0
    converged_at: Seconds = 0.0
    """When it was last marked as converged."""
    trend: Trend
    """Trend of the logarithm of G over age, for `adaptive`."""


@memory
class SpeConMemory:
    due: Seconds | None = None
    """The next tick; None: no replica runs."""
    judged: dict[ReplicaId, Judged]
    requests: list[ReplicaId]
    """Messages to the manager without an answer."""
    free_at: Seconds = 0.0
    """When the manager can answer the next one."""
    homes: dict[ReplicaId, NodeId]
    """For `pinned`: the node on which each started."""


@record
class SpeCon:
    about = "migrates converged jobs to nodes with less competition (2021)"
    name: str = "specon"
    listens: bool = True
    threshold: float = 0.01
    """α, on the growth of one interval."""
    interval: Seconds = 30.0
    """Time between ticks, with one clock for the whole cluster."""
    signal: str = "range"
    """`maximum`: |change| over the largest loss (paper); `range`: improvement over the range."""
    per_cpu: bool = True
    """Growth per fraction of the node used; otherwise (paper) replicas on a crowded node seem to
    converge."""
    standstill: bool = True
    """Growth 0 counts as shrinking; otherwise (paper) as jitter, forever."""
    adaptive: bool = False
    """α for each replica from the trend of its growth, instead of the same threshold for all."""
    unconverged: float = 1.0
    """Request a migration only if more than this many replicas have not converged."""
    unconverged_on: str = "node"
    """Where these are counted: on its `node`, or in the `cluster` (Algorithm 3, line 15, has no
    subscript)."""
    hysteresis: bool = True
    """Migrate only to a node with less competition than here without the replica itself."""
    serial: bool = False
    """The manager answers one request after another, which takes time (paper)."""
    balance: str = "ceil"
    """How the mean number of replicas is rounded: `floor` (paper) or `ceil`."""
    donor_check: bool = True
    """Rebalance only if at least as many replicas stay as there will be on the other node."""
    rebalance: str = "converged"
    """Rebalancing starts when all replicas are, and takes the last to be: `converged` (thesis
    6.2.3 and the text of 5.2.3) or `migrated`, their requests answered (Algorithm 5, line 1)."""
    pinned: bool = False
    """Place new jobs as if nothing had been migrated (the authors' runs)."""

    def begin(self) -> SpeConMemory:
        return SpeConMemory(judged={}, requests=[], homes={})

    def decide(self, snapshot: Snapshot, memory: SpeConMemory) -> tuple[Plan, SpeConMemory]:
        cluster = _Cluster(self, snapshot, memory)
        ticks = snapshot.trigger is Trigger.TICK and _due(memory.due, snapshot.at)
        if self.pinned:
            cluster.place()
        if ticks:
            cluster.categorise()
        cluster.answer()
        if ticks:
            cluster.rebalance()
            memory.due = None
        return cluster.plan(), memory

    def growth(self, r: Replica, s: Snapshot) -> float | None:
        """G, Algorithm 3; None: unknown."""
        if self.signal == "maximum":
            # During an iteration, the value of a job is that of the previous iteration.
            seen = paper_progress(r.history, s.at, self.interval, hold=True)
        else:
            sign = s.jobs[r.job].spec.direction.sign
            seen = progress(r.history, s.at, self.interval, sign=sign)
        if seen is None or r.node is None:
            return None
        if not self.per_cpu:
            return seen.growth
        found = seen.efficiency(s.nodes[r.node].capacity.cpu)
        return None if found is None else found * self.interval

    def judge(self, j: Judged, growth: float, age: Seconds) -> bool:
        """Algorithm 3 for one replica; return whether it requests a migration."""
        threshold, slack, trusted = self._threshold(j, growth, age)
        before, previous = j.category, j.growth
        # There is no earlier growth to compare the first one with.
        shrinking = previous is not None and (
            growth * (1 + slack) < previous
            or (self.standstill and growth == 0.0)
            or (trusted and before is Category.GROWING)
        )
        j.category = by_growth(before, growth, threshold, shrinking=shrinking)
        j.growth = growth
        return shrinking and before is j.category is Category.CONVERGED

    def _threshold(self, j: Judged, growth: float, age: Seconds) -> tuple[float, float, bool]:
        """Return α, the slack on `shrinking`, and whether α is the replica's own: the value of the
        line through the logarithms of its earlier growth, at its age.
        """
        line = j.trend.at(age) if self.adaptive else None
        if self.adaptive and growth > 0:
            j.trend.add(age, log(growth))
        if line is None:
            return self.threshold, 0.0, False
        return exp(min(line[0], FARTHEST)), line[1], True


PAPER = {
    "signal": "maximum", "per_cpu": False, "standstill": False, "hysteresis": False,
    "serial": True, "balance": "floor", "donor_check": False, "pinned": True,
}  # fmt: skip


class _Cluster:
    """One cycle, on the cluster as the decisions so far would leave it."""

    def __init__(self, policy: SpeCon, snapshot: Snapshot, memory: SpeConMemory) -> None:
        self.policy, self.snapshot, self.memory = policy, snapshot, memory
        self.now, self.running = snapshot.at, snapshot.running
        self.decisions: list[Decision] = []

    def plan(self) -> Plan:
        """Wake for the next tick, or for the manager's next answer."""
        m, decisions = self.memory, tuple(self.decisions)
        if not self.running:
            m.due, m.requests = None, []
            return Plan(decisions=decisions) if decisions else CALM
        if m.due is None:
            m.due = self.now + self.policy.interval
        wake = min(m.due, m.free_at) if m.requests else m.due
        look = dict.fromkeys(r.node for r in self.running if r.node) if wake == m.due else ()
        return Plan(decisions=decisions, wake_after=max(0.0, wake - self.now), look=tuple(look))

    # -- the workers: Algorithm 3 ----------------------------------------------------------------

    def categorise(self) -> None:
        s, m = self.snapshot, self.memory
        jobs = s.jobs
        m.judged = {n: j for n, j in m.judged.items() if n.job in jobs}
        # Requests follow after all replicas are judged, so that their order does not matter.
        leaving = [r for r in self.running if self._judge(r) and _can_move(r, s)]
        everywhere = self.policy.unconverged_on == "cluster"
        for r in leaving:
            nodes = [n.id for n in self._nodes()] if everywhere else [r.node]
            seen = [self._category(other) for node in nodes for other in self._here(node)]
            learning = len(seen) - seen.count(Category.CONVERGED)
            if learning > self.policy.unconverged and r.id not in m.requests:
                m.requests.append(r.id)

    def _judge(self, r: Replica) -> bool:
        j = self.memory.judged.setdefault(r.id, Judged(trend=Trend()))
        growth = None if j.migrated else self.policy.growth(r, self.snapshot)
        if growth is None:
            return False
        before = j.category
        asks = self.policy.judge(j, growth, self.now - r.history.windows[0].since)
        if before is not j.category is Category.CONVERGED:
            j.converged_at = self.now
        return asks

    # -- the manager: Algorithm 4 ----------------------------------------------------------------

    def answer(self) -> None:
        m = self.memory
        while m.requests and _due(m.free_at, self.now):
            took = self._answer(m.requests.pop(0))
            m.free_at = self.now + (took if self.policy.serial else 0.0)

    def _answer(self, name: ReplicaId) -> Seconds:
        r = self.snapshot.replicas.get(name)
        if r is None or not self._all_running(r) or not self.snapshot.can(r.job).migrate:
            return 0.0  # it can request again
        j = self.memory.judged[name]
        j.migrated, j.answered_at = True, self.now
        target = self._target(r, WEIGHTS[j.category])
        if target is None:
            return STAY
        self._move(r, target, "converged; that node has the least competition (-M)")
        return MIGRATION

    def _target(self, r: Replica, weight: float) -> NodeId | None:
        """Return the node with the lowest score; None: stay."""
        s, request = self.snapshot, self.snapshot.request(r)
        scores = {
            n.id: self._score(n.id)
            for n in self._nodes()
            if n.id == r.node or request.fits(n.taken, n.capacity)
        }
        here = self._score(r.node)
        least = min(scores.values(), default=here)
        if here <= least or (self.policy.hysteresis and here - weight <= least):
            return None
        return min((n for n in scores if scores[n] == least), key=s.used)

    def _score(self, node: NodeId | None) -> float:
        """The replica itself counts on its own node, as in figure 6.22 of the thesis."""
        return sum(WEIGHTS[self._category(r)] for r in self._here(node))

    # -- the manager: Algorithm 5 ----------------------------------------------------------------

    def rebalance(self) -> None:
        """After all have converged, migrate the latest to nodes with few replicas."""
        nodes = self._nodes()
        if not all(self._settled(r) for n in nodes for r in self._here(n.id)):
            return
        short = self._short_of_replicas(nodes)
        names = {n.id for n in short}
        for node in short:
            others = [r for r in self.running if r.node not in names]
            found = [r for r in others if self._may_give(r, node)]
            if found:
                # The smallest d: the latest to converge has the most work left.
                last = max(found, key=self._marked_at)
                self.memory.judged[last.id].rebalanced = True
                self._move(last, node.id, "last to converge; that node has few jobs (-R)")

    def _short_of_replicas(self, nodes: list[Node]) -> list[Node]:
        """Return empty nodes or, if there are none, those with too few replicas."""
        counts = {n.id: len(self._here(n.id)) for n in nodes}
        total = sum(counts.values())
        if not total:
            return []
        mean = total / len(nodes)
        share = floor(mean) if self.policy.balance == "floor" else ceil(mean)
        if 0 in counts.values():
            return [n for n in nodes if counts[n.id] == 0 and share > 0]
        return [n for n in nodes if counts[n.id] < share - 1]

    def _settled(self, r: Replica) -> bool:
        if not _can_move(r, self.snapshot):
            return True
        j = self.memory.judged.get(r.id)
        if j is None or j.migrated:
            return j is not None
        return self.policy.rebalance == "converged" and j.category is Category.CONVERGED

    def _marked_at(self, r: Replica) -> Seconds:
        """t_c."""
        j = self.memory.judged[r.id]
        return j.converged_at if self.policy.rebalance == "converged" else j.answered_at

    def _may_give(self, seen: Replica, to: Node) -> bool:
        s, r = self.snapshot, self.snapshot.replicas[seen.id]
        if not _can_move(r, s) or self.memory.judged[r.id].rebalanced or not self._all_running(r):
            return False
        if self.policy.donor_check and len(self._here(r.node)) < len(self._here(to.id)) + 2:
            return False
        now = s.nodes[to.id]
        return s.request(r).fits(now.taken, now.capacity)

    # -- the cluster -----------------------------------------------------------------------------

    def place(self) -> None:
        """For `pinned`: place jobs as `spread` would if nothing had been migrated."""
        s, m = self.snapshot, self.memory
        placed = {n: r.node for n, r in s.replicas.items() if r.node is not None}
        m.homes = {n: m.homes.get(n, node) for n, node in placed.items()}
        if s.queue:
            plan, _ = Spread().decide(_at_home(m.homes, s), None)
            for decision in check(plan, s).accepted:
                self._decide(decision)

    def _nodes(self) -> list[Node]:
        """Return the nodes that are up, in the order of the file."""
        s = self.snapshot
        return sorted((n for n in s.nodes.values() if n.up), key=lambda n: s.order[n.id])

    def _here(self, node: NodeId | None) -> list[Replica]:
        """Return the replicas on a node; a migrating one counts on its target."""
        there = self.snapshot.on(node) if node else ()
        return [r for r in there if (r.bound_for or r.node) == node]

    def _category(self, r: Replica) -> Category:
        j = self.memory.judged.get(r.id)
        return j.category if j else Category.GROWING

    def _all_running(self, r: Replica) -> bool:
        """Only one replica of a gang migrates at a time."""
        return all(o.phase is Phase.RUNNING for o in self.snapshot.of(r.job))

    def _move(self, r: Replica, to: NodeId, why: str) -> None:
        self._decide(Move(replica=r.id, to=to, reason=why))

    def _decide(self, decision: Decision) -> None:
        self.decisions.append(decision)
        self.snapshot = project(Plan(decisions=(decision,)), self.snapshot)


def _due(due: Seconds | None, now: Seconds) -> bool:
    return due is not None and due <= now + SLACK


def _can_move(r: Replica, s: Snapshot) -> bool:
    return s.jobs[r.job].spec.checkpoint is not Mode.NONE and s.can(r.job).migrate


def _at_home(homes: Mapping[ReplicaId, NodeId], s: Snapshot) -> Snapshot:
    """Return the snapshot with only these replicas, each on its home node."""
    running = [job for job in s.jobs.values() if job.id not in s.queue]
    seen = Observation(
        at=s.at,
        complete=True,
        nodes=tuple(sorted(s.nodes.values(), key=lambda n: s.order[n.id])),
        jobs=(*running, *s.waiting),
        replicas=tuple(
            replace(s.replicas[name], node=node, bound_for=None) for name, node in homes.items()
        ),
    )
    return assemble(remember(ClusterState(), seen), s.trigger)
