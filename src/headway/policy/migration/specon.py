"""SpeCon: what has converged moves to where it is in nobody's way (Algorithms 3, 4 and 5).

The paper's workers categorise their containers and send heartbeats and requests to a manager.
Here one policy sees the whole cluster: the messages are entries of its memory. The paper mode
follows the text, with its misprints resolved as docs/papers/specon.md says; each difference of
the corrected mode is a switch, with its reason in docs/decisions/0017.
"""

from math import ceil, exp, floor, log

from headway.core.cycle.project import project
from headway.core.cycle.validate import check
from headway.core.estimate.category import WEIGHTS, Category, by_growth
from headway.core.estimate.progress import Progress, paper_progress, progress
from headway.core.estimate.trend import Trend
from headway.core.model.decision import CALM, Decision, Move, Plan
from headway.core.model.job import Mode, Phase, Replica
from headway.core.model.node import Node
from headway.core.model.serialization import memory, record
from headway.core.model.snapshot import Snapshot, Trigger
from headway.core.model.units import SLACK, NodeId, ReplicaId, Seconds
from headway.policy.placement.spread import Spread, all_at

MIGRATION: Seconds = 1.1
STAY: Seconds = 0.1
"""How long the authors' manager takes for one answer of either kind (their published trace)."""
FARTHEST = 700.0
"""e to the power of more is no number; a line reaches it where a job was away for long."""


@memory
class Judged:
    """What is known of one replica. It belongs to the job: moves and restarts do not cut it."""

    category: Category = Category.GROWING
    growth: float | None = None
    """G at the last tick; None: not measured yet."""
    migrated: bool = False
    """Its request was answered, be it by a move or by `stay`."""
    rebalanced: bool = False
    answered_at: Seconds = 0.0
    """t_c."""
    trend: Trend
    """Of the logarithm of G over age; for `adaptive`."""


@memory
class SpeConMemory:
    due: Seconds | None = None
    """The next tick; None: nobody runs."""
    judged: dict[ReplicaId, Judged]
    requests: list[ReplicaId]
    """Messages that the manager has not answered yet."""
    free_at: Seconds = 0.0
    """When the manager has done with the last one."""
    homes: dict[ReplicaId, NodeId]
    """For `pinned`: where each was started."""


@record
class SpeCon:
    name: str = "specon"
    listens: bool = True
    threshold: float = 0.01
    """α, on the growth of one interval."""
    interval: Seconds = 30.0
    """From one tick to the next: one clock for the whole cluster."""
    signal: str = "range"
    """`maximum`: |change| over the largest loss (paper); `range`: improvement over the range."""
    per_cpu: bool = True
    """Growth by part of the node used; else (paper) whoever is crowded seems to converge."""
    standstill: bool = True
    """No growth at all counts as still shrinking; else (paper) as jitter, for good."""
    adaptive: bool = False
    """α for each replica, from the trend of its own growth, instead of the one threshold."""
    unconverged: float = 1.0
    """Nobody asks to leave where no more than so many others still learn."""
    hysteresis: bool = True
    """Leave only for less competition than there is here without oneself."""
    serial: bool = False
    """The manager answers one request after another, and takes its time (paper)."""
    balance: str = "ceil"
    """Which way the mean number of replicas is rounded: `floor` (paper) or `ceil`."""
    donor_check: bool = True
    """Rebalance only from where at least as many stay as there will be on the other node."""
    unasked: bool = True
    """Rebalancing does not wait for those that have converged and may not ask; else (paper) it
    does, and where nobody learns any more nobody ever may."""
    pinned: bool = False
    """New jobs go where they would have gone had nothing been moved (the authors' runs)."""

    def begin(self) -> SpeConMemory:
        return SpeConMemory(judged={}, requests=[], homes={})

    def decide(self, snapshot: Snapshot, memory: SpeConMemory) -> tuple[Plan, SpeConMemory]:
        cluster = _Cluster(self, snapshot, memory)
        ticks = snapshot.trigger is Trigger.TICK and _come(memory.due, snapshot.at)
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
        seen: Progress | None
        if self.signal == "maximum":
            # Asked in the middle of an iteration, a job answers with the value before.
            seen = paper_progress(r.track, s.at, self.interval, hold=True)
        else:
            sign = s.jobs[r.job].spec.direction.sign
            seen = progress(r.track, s.at, self.interval, sign=sign)
        if seen is None or r.node is None:
            return None
        if not self.per_cpu:
            return seen.growth
        found = seen.efficiency(s.nodes[r.node].capacity.cpu)
        return None if found is None else found * self.interval

    def judge(self, j: Judged, growth: float, age: Seconds) -> bool:
        """Algorithm 3 for one replica; does it want to leave?"""
        threshold, slack, trusted = self._threshold(j, growth, age)
        before, previous = j.category, j.growth
        # At the first reading there is nothing yet that it could have shrunk from.
        shrinking = previous is not None and (
            growth * (1 + slack) < previous
            or (self.standstill and growth == 0.0)
            or (trusted and before is Category.GROWING)
        )
        j.category = by_growth(before, growth, threshold, shrinking=shrinking)
        j.growth = growth
        return shrinking and before is j.category is Category.CONVERGED

    def _threshold(self, j: Judged, growth: float, age: Seconds) -> tuple[float, float, bool]:
        """α, the slack on `shrinking`, and whether α is the replica's own: what the line through
        the logarithms of its earlier growth says for its age.
        """
        line = j.trend.at(age) if self.adaptive else None
        if self.adaptive and growth > 0:
            j.trend.add(age, log(growth))
        if line is None:
            return self.threshold, 0.0, False
        return exp(min(line[0], FARTHEST)), line[1], True


PAPER = {
    "signal": "maximum", "per_cpu": False, "standstill": False, "hysteresis": False,
    "serial": True, "balance": "floor", "donor_check": False, "unasked": False, "pinned": True,
}  # fmt: skip


class _Cluster:
    """One cycle: the cluster as the decisions so far would leave it."""

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
        # Who would like to leave is asked when all are judged, so that no order matters.
        leaving = [r for r in self.running if self._judge(r) and _can_save(r, s)]
        for r in leaving:
            here = [self._category(other) for other in self._here(r.node)]
            learning = len(here) - here.count(Category.CONVERGED)
            if learning > self.policy.unconverged and r.id not in m.requests:
                m.requests.append(r.id)

    def _judge(self, r: Replica) -> bool:
        j = self.memory.judged.setdefault(r.id, Judged(trend=Trend()))
        growth = None if j.migrated else self.policy.growth(r, self.snapshot)
        if growth is None:
            return False
        return self.policy.judge(j, growth, self.now - r.track.windows[0].since)

    # -- the manager: Algorithm 4 ----------------------------------------------------------------

    def answer(self) -> None:
        m = self.memory
        while m.requests and _come(m.free_at, self.now):
            took = self._answer(m.requests.pop(0))
            m.free_at = self.now + (took if self.policy.serial else 0.0)

    def _answer(self, name: ReplicaId) -> Seconds:
        r = self.snapshot.replicas.get(name)
        if r is None or not self._movable(r):
            return 0.0  # it may ask again
        j = self.memory.judged[name]
        j.migrated, j.answered_at = True, self.now
        target = self._target(r, WEIGHTS[j.category])
        if target is None:
            return STAY
        self._move(r, target, "converged; fewest and slowest jobs there (-M)")
        return MIGRATION

    def _target(self, r: Replica, weight: float) -> NodeId | None:
        """The node with the least score; None: it stays."""
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
        """Who asks is counted on its own node: so the thesis' figure 6.22 has it."""
        return sum(WEIGHTS[self._category(r)] for r in self._here(node))

    # -- the manager: Algorithm 5 ----------------------------------------------------------------

    def rebalance(self) -> None:
        """Once every request has been answered, what was answered last goes to where few are."""
        nodes = self._nodes()
        counts = {n.id: len(self._here(n.id)) for n in nodes}
        total = sum(counts.values())
        if not total or not all(self._settled(r) for n in counts for r in self._here(n)):
            return
        mean = total / len(nodes)
        share = floor(mean) if self.policy.balance == "floor" else ceil(mean)
        short = [n for n in nodes if counts[n.id] == 0 and share > 0]
        if 0 not in counts.values():
            short = [n for n in nodes if counts[n.id] < share - 1]
        for node in short:
            others = [r for r in self.running if all(r.node != n.id for n in short)]
            found = [r for r in others if self._may_give(r, node)]
            if found:
                # The smallest d: the latest to converge has the most left to do.
                last = max(found, key=lambda r: self.memory.judged[r.id].answered_at)
                self.memory.judged[last.id].rebalanced = True
                self._move(last, node.id, "latest to converge; few jobs there (-R)")

    def _settled(self, r: Replica) -> bool:
        if not _can_save(r, self.snapshot):
            return True
        j = self.memory.judged.get(r.id)
        if j is None or j.migrated:
            return j is not None
        return self.policy.unasked and j.category is Category.CONVERGED

    def _may_give(self, seen: Replica, to: Node) -> bool:
        s, r = self.snapshot, self.snapshot.replicas[seen.id]
        if not _can_save(r, s) or self.memory.judged[r.id].rebalanced or not self._movable(r):
            return False
        if self.policy.donor_check and len(self._here(r.node)) < len(self._here(to.id)) + 2:
            return False
        now = s.nodes[to.id]
        return s.request(r).fits(now.taken, now.capacity)

    # -- what there is -----------------------------------------------------------------------------

    def place(self) -> None:
        """For `pinned`: where `spread` would place them, had everybody stayed at home."""
        s, m = self.snapshot, self.memory
        placed = {n: r.node for n, r in s.replicas.items() if r.node is not None}
        m.homes = {n: m.homes.get(n, node) for n, node in placed.items()}
        if s.queue:
            plan, _ = Spread().decide(all_at(m.homes, s), None)
            for decision in check(plan, s).accepted:
                self._decide(decision)

    def _nodes(self) -> list[Node]:
        """Those that are up, in the order of the file."""
        s = self.snapshot
        return sorted((n for n in s.nodes.values() if n.up), key=lambda n: s.order[n.id])

    def _here(self, node: NodeId | None) -> list[Replica]:
        """Who is on a node; who is on the way counts where it is bound for."""
        there = self.snapshot.on(node) if node else ()
        return [r for r in there if (r.bound_for or r.node) == node]

    def _category(self, r: Replica) -> Category:
        j = self.memory.judged.get(r.id)
        return j.category if j else Category.GROWING

    def _movable(self, r: Replica) -> bool:
        """A gang moves one at a time."""
        return all(o.phase is Phase.RUNNING for o in self.snapshot.of(r.job))

    def _move(self, r: Replica, to: NodeId, why: str) -> None:
        self._decide(Move(replica=r.id, to=to, reason=why))

    def _decide(self, decision: Decision) -> None:
        self.decisions.append(decision)
        self.snapshot = project(Plan(decisions=(decision,)), self.snapshot)


def _come(due: Seconds | None, now: Seconds) -> bool:
    return due is not None and due <= now + SLACK


def _can_save(r: Replica, s: Snapshot) -> bool:
    return s.jobs[r.job].spec.checkpoint is not Mode.NONE
