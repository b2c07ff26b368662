"""FlowCon: limits by growth efficiency on one node (Algorithms 1 and 2).

The paper mode follows the text, with its misprints resolved as in docs/papers/flowcon.md. The
corrected mode differs in four switches, explained in docs/decisions: `signal`, `cold_start`,
`dimensionless` (0004) and `soft` (0005).
"""

from collections.abc import Iterator

from headway.core.cycle.validate import LEAST_LIMIT, LEAST_WEIGHT
from headway.core.estimate.category import Category, by_efficiency
from headway.core.estimate.progress import paper_progress, progress
from headway.core.model.decision import Plan, SetShare
from headway.core.model.job import Replica
from headway.core.model.serialization import memory, record
from headway.core.model.snapshot import Snapshot, Trigger
from headway.core.model.units import Cores, ReplicaId, Seconds, Share


@memory
class FlowConMemory:
    interval: Seconds
    categories: dict[ReplicaId, Category]


@record
class FlowConSettings:
    threshold: float = 0.05
    """α, on growth efficiency."""
    interval: Seconds = 20.0
    """Time between decisions (itval)."""
    floor_divisor: float = 2.0
    """β: a converged replica keeps 1/(β n) of the node. The thesis does not state it; its example,
    a limit of 0.25 for one of two replicas, means β = 2."""
    floor_rule: str = "divisor"
    """`divisor`: β is constant; `count`: β = 1 + 1/n, which leaves 1/(n + 1) (authors' code)."""
    backoff: bool = True
    """Double the interval while all replicas have converged."""
    signal: str = "range"
    """`maximum`: |change| over the largest loss (paper); `range`: improvement over the range."""
    cold_start: str = "unknown"
    """Growth of a replica whose reports do not cover two intervals: `zero` (the authors' code) or
    `unknown`. Without any report it is unknown in both."""
    soft: bool = True
    """Shares are weights, so that others can use what one replica leaves idle; otherwise limits
    (paper)."""
    dimensionless: bool = True
    """Growth per interval and fraction of the node, 0 to 1; otherwise per second (paper), where α
    depends on the interval."""
    resources: str = "cpu"
    """R in lines 15 and 19 of Algorithm 1: `cpu`, or `all` that are counted for every replica. Only
    CPU can be limited: with `all`, by the least limit that any of them gives."""


@record
class FlowCon(FlowConSettings):
    about = "limits by growth efficiency on each node (ICPP 2019)"
    name: str = "flowcon"
    listens: bool = True

    def begin(self) -> FlowConMemory:
        return FlowConMemory(interval=self.interval, categories={})

    def decide(self, snapshot: Snapshot, memory: FlowConMemory) -> tuple[Plan, FlowConMemory]:
        ours, cores = snapshot.adjustable, snapshot.node.capacity.cpu
        if not ours:
            return Plan(), self.begin()
        waited = memory.interval if snapshot.trigger is Trigger.TICK else self.interval
        growth = {r.id: self._efficiency(r, snapshot, waited, cores) for r in ours}
        now = {r.id: self._category(r.id, growth[r.id], memory) for r in ours}
        done = set(now.values()) == {Category.CONVERGED}
        shares = dict.fromkeys(growth, 1.0) if done else self._shares(ours, growth, now)
        changes = []
        for r in ours:
            limit, weight = self._wanted(r, shares[r.id], snapshot, len(ours))
            if (limit, weight) != (r.limit, r.weight):
                why = _reason(now[r.id], growth[r.id], done)
                changes.append(SetShare(replica=r.id, limit=limit, weight=weight, reason=why))
        # Algorithm 1, line 17: exponential back-off; Algorithm 2: an event resets it.
        interval = 2 * waited if done and self.backoff else self.interval
        plan = Plan(decisions=tuple(changes), wake_after=interval, look=(snapshot.node.id,))
        return plan, FlowConMemory(interval=interval, categories=now)

    def _efficiency(self, r: Replica, s: Snapshot, interval: Seconds, cores: Cores) -> float | None:
        """G, equation 4.2; None: unknown."""
        sign = s.jobs[r.job].spec.direction.sign
        if self.signal == "maximum":
            seen = paper_progress(r.history, s.at, interval)
        else:
            seen = progress(r.history, s.at, interval, sign=sign)
        found = seen.efficiency(cores) if seen else None
        if found is None:
            # Algorithm 2, line 7: a new container is in NL; it is not judged before it reports.
            return 0.0 if self.cold_start == "zero" and r.history.windows else None
        return found * interval if self.dimensionless else found

    def _category(self, r: ReplicaId, growth: float | None, memory: FlowConMemory) -> Category:
        before = memory.categories.get(r, Category.GROWING)
        return before if growth is None else by_efficiency(before, growth, self.threshold)

    def _shares(
        self,
        ours: tuple[Replica, ...],
        growth: dict[ReplicaId, float | None],
        now: dict[ReplicaId, Category],
    ) -> dict[ReplicaId, Share | None]:
        """Algorithm 1, lines 18 to 28, as fractions of the node; None: unchanged."""
        parts = self._parts(ours, {r: g for r, g in growth.items() if g is not None})
        floor = self.floor(len(ours))
        # A new replica without reports may grow fastest: until it reports, converged replicas keep
        # their floor. In the thesis, VAE gets 0.25 as soon as MNIST arrives.
        unmeasured = any(not r.history.windows for r in ours)

        def share(r: Replica) -> Share | None:
            mine = parts.get(r.id)
            if mine is None or now[r.id] is Category.WATCHED:
                return None
            if now[r.id] is Category.CONVERGED:
                return floor if unmeasured else max(mine, floor)
            return mine

        return {r.id: share(r) for r in ours}

    def _parts(
        self, ours: tuple[Replica, ...], growth: dict[ReplicaId, float]
    ) -> dict[ReplicaId, Share]:
        """G / ΣG of each replica, the least over the resources; empty if none grows."""
        if not any(growth.values()):
            return {}
        every = [growth, *(_by_resource(ours, growth) if self.resources == "all" else ())]
        totals = [sum(g.values()) for g in every]
        return {r: min(g[r] / x for g, x in zip(every, totals, strict=True)) for r in growth}

    def floor(self, count: int) -> Share:
        """Return the fraction of the node that a converged replica keeps, among `count`."""
        return 1 / (count + 1) if self.floor_rule == "count" else 1 / (self.floor_divisor * count)

    def _wanted(
        self, r: Replica, share: Share | None, s: Snapshot, count: int
    ) -> tuple[Cores | None, float]:
        """Return limit and weight. The whole node is no limit; each replica gets at least the
        minimum of `check`, and at most its user's limit.
        """
        own = s.ceiling(r)
        if share is None:
            return own if r.limit is None else r.limit, r.weight
        if self.soft:
            return own, min(1.0, max(share, LEAST_LIMIT, 1.01 * LEAST_WEIGHT * count))
        if share >= 1.0:
            return own, 1.0
        limit = max(share, LEAST_LIMIT) * s.node.capacity.cpu
        return limit if own is None else min(limit, own), 1.0


PAPER = {"signal": "maximum", "cold_start": "zero", "dimensionless": False, "soft": False}


def _by_resource(
    ours: tuple[Replica, ...], growth: dict[ReplicaId, float]
) -> Iterator[dict[ReplicaId, float]]:
    """Yield G for memory and I/O: progress is G for CPU times the CPU used."""
    used = {r.id: r.usage for r in ours if r.id in growth and r.usage and r.usage.cpu > 0}
    for name in ("memory", "block_io", "network_io"):
        amounts = {r: getattr(usage, name) or 0.0 for r, usage in used.items()}
        if len(amounts) == len(growth) and all(amounts.values()):
            yield {r: growth[r] * used[r].cpu / amount for r, amount in amounts.items()}


def _reason(category: Category, growth: float | None, done: bool) -> str:
    if done:
        return "all jobs have converged: no limits"
    return f"{category}: growth efficiency {growth or 0.0:.3g}"
