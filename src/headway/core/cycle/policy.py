"""The Policy protocol, and two ways to combine policies: a chain, and one per node."""

from heapq import heappop, heappush
from typing import Any, Generic, Protocol, TypeVar

from headway.core.cycle.project import project
from headway.core.model.decision import CALM, Decision, Plan
from headway.core.model.serialization import memory
from headway.core.model.snapshot import Snapshot, Trigger
from headway.core.model.units import SLACK, NodeId, Seconds

M = TypeVar("M")
Entry = tuple[Seconds, int, NodeId]


class Policy(Protocol[M]):
    """Snapshot and memory in, plan and memory out. No clock, and no state in `self`."""

    @property
    def name(self) -> str: ...

    @property
    def listens(self) -> bool:
        """Whether the policy reads reports. If not, a backend need not collect them."""
        ...

    def begin(self) -> M:
        """Return the initial memory."""
        ...

    def decide(self, snapshot: Snapshot, memory: M) -> tuple[Plan, M]: ...


@memory
class ChainMemory:
    members: list[Any]


class Chain:
    """Several policies in sequence, for example for jobs, placement and shares. Each decides on the
    snapshot that the plans before it would lead to. `check` refuses contradicting decisions.
    """

    def __init__(self, *members: Policy[Any], name: str = "") -> None:
        self.members = members
        self.name = name or "+".join(m.name for m in members)
        self.listens = any(m.listens for m in members)

    def begin(self) -> ChainMemory:
        return ChainMemory(members=[m.begin() for m in self.members])

    def decide(self, snapshot: Snapshot, memory: ChainMemory) -> tuple[Plan, ChainMemory]:
        plans = []
        for i, member in enumerate(self.members):
            plan, memory.members[i] = member.decide(snapshot, memory.members[i])
            if plan is not CALM:
                plans.append(plan)
                snapshot = project(plan, snapshot)
        return join(plans), memory


def join(plans: list[Plan]) -> Plan:
    """Return all decisions, with the earliest time to wake."""
    if len(plans) > 1:
        plans = [p for p in plans if p is not CALM]
    if len(plans) < 2:
        return plans[0] if plans else CALM
    wakes = [p.wake_after for p in plans if p.wake_after is not None]
    wake = min(wakes, default=None)
    look = dict.fromkeys(n for p in plans if p.wake_after == wake for n in p.look)
    decisions = tuple(d for p in plans for d in p.decisions)
    return Plan(decisions=decisions, wake_after=wake, look=tuple(look))


@memory
class PerNodeMemory:
    members: dict[NodeId, Any]
    due: dict[NodeId, Seconds]
    agenda: list[Entry]
    """A heap over `due`. Entries that differ from `due` are stale."""


class PerNode(Generic[M]):
    """Run a one-node policy on each node that changed or is due. Other nodes cost nothing."""

    def __init__(self, inner: Policy[M]) -> None:
        self.inner, self.name, self.listens = inner, inner.name, inner.listens

    def begin(self) -> PerNodeMemory:
        return PerNodeMemory(members={}, due={}, agenda=[])

    def decide(self, snapshot: Snapshot, memory: PerNodeMemory) -> tuple[Plan, PerNodeMemory]:
        decisions: list[Decision] = []
        for node, trigger in self._awake(snapshot, memory).items():
            memory.due.pop(node, None)
            if not snapshot.has(node):
                memory.members.pop(node, None)
                continue
            before = memory.members.get(node)
            plan, after = self.inner.decide(
                snapshot.only(node, trigger), self.inner.begin() if before is None else before
            )
            if after is not None:
                memory.members[node] = after
            decisions += plan.decisions
            if plan.wake_after is not None:
                due = memory.due[node] = snapshot.at + plan.wake_after
                heappush(memory.agenda, (due, snapshot.order[node], node))
        return self._plan(tuple(decisions), snapshot.at, memory), memory

    def _awake(self, snapshot: Snapshot, memory: PerNodeMemory) -> dict[NodeId, Trigger]:
        """Return the nodes that changed or are due, with the trigger of each."""
        tick = snapshot.trigger is Trigger.TICK
        awake = dict.fromkeys(snapshot.changed.nodes, Trigger.NODE if tick else snapshot.trigger)
        while tick and memory.agenda and memory.agenda[0][0] <= snapshot.at + SLACK:
            at, _, node = heappop(memory.agenda)
            if memory.due.get(node) == at:
                awake.setdefault(node, Trigger.TICK)
        return awake

    def _plan(self, decisions: tuple[Decision, ...], now: Seconds, memory: PerNodeMemory) -> Plan:
        agenda = memory.agenda
        while agenda and memory.due.get(agenda[0][2]) != agenda[0][0]:
            heappop(agenda)
        if not agenda:
            return Plan(decisions=decisions) if decisions else CALM
        look = dict.fromkeys(n for at, _, n in _first(agenda) if memory.due.get(n) == at)
        return Plan(decisions=decisions, wake_after=max(0.0, agenda[0][0] - now), look=tuple(look))


def _first(agenda: list[Entry]) -> list[Entry]:
    """Return the entries of a heap with the earliest time, without a full scan."""
    found, look_at = [], [0]
    while look_at:
        i = look_at.pop()
        if i < len(agenda) and agenda[i][0] <= agenda[0][0] + SLACK:
            found.append(agenda[i])
            look_at += (2 * i + 1, 2 * i + 2)
    return sorted(found)
