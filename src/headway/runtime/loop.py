"""`Loop.step`, the map of the system."""

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from headway.backend.base import Backend
from headway.core.cycle.cluster_state import ClusterState, assemble, remember
from headway.core.cycle.policy import Policy
from headway.core.cycle.validate import check
from headway.core.model.snapshot import Trigger
from headway.core.model.units import NodeId, Seconds
from headway.runtime.journal import Journal

M = TypeVar("M")


class Loop(Generic[M]):
    """One look at the world and the answer to it. Agent, scheduler, operator and simulator all
    call `step`; they differ in what wakes them and in which backend they pass.
    """

    def __init__(self, backend: Backend, policy: Policy[M], journal: Journal) -> None:
        self.backend, self.policy, self.journal = backend, policy, journal
        self.history, self.memory = ClusterState(), policy.begin()
        self.look: tuple[NodeId, ...] = ()

    def step(self, trigger: Trigger) -> Seconds | None:
        """Run one cycle; return how long the policy would like to sleep."""
        seen = self.backend.observe(self.look if trigger is Trigger.TICK else ())
        self.history = remember(self.history, seen)
        snapshot = assemble(self.history, trigger)
        plan, self.memory = self.policy.decide(snapshot, self.memory)
        verdict = check(plan, snapshot)
        self.journal.intend(trigger, seen, plan, verdict, self.memory)  # durable before we act
        done = tuple([self.backend.act(d) for d in verdict.accepted])
        self.journal.settle(done)
        self.look = plan.look
        return plan.wake_after

    def take_up(self, lines: Sequence[dict[str, Any]]) -> None:
        """Go on where an earlier process stopped: fold again what it saw, from its journal. What
        it was about to do is not done again; the next look shows what came of it.
        """
        known = max((i for i, line in enumerate(lines) if "memory" in line), default=-1)
        for i, line in enumerate(lines):
            self.history = remember(self.history, line["seen"])
            if i == known:
                self.memory = line["memory"]
            elif i > known:
                snapshot = assemble(self.history, line["trigger"])
                _, self.memory = self.policy.decide(snapshot, self.memory)
