"""The loop. Start reading here: `Loop.step` calls every part of the system."""

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from headway.backend.base import Backend
from headway.core.cycle.cluster_state import ClusterState, assemble, remember
from headway.core.cycle.folded_state import fold_state, unfold_state
from headway.core.cycle.policy import Policy
from headway.core.cycle.validate import check
from headway.core.model.snapshot import Trigger
from headway.core.model.units import NodeId, Seconds
from headway.runtime.journal import Journal

M = TypeVar("M")


class Loop(Generic[M]):
    """Observe, decide, validate, write to the journal, act. `run`, `serve`, `operator` and
    `simulate` all call `step`. They differ in the backend and in what wakes the loop.
    """

    def __init__(self, backend: Backend, policy: Policy[M], journal: Journal) -> None:
        self.backend, self.policy, self.journal = backend, policy, journal
        self.state, self.memory = ClusterState(), policy.begin()
        journal.state = lambda: fold_state(self.state)
        self.look: tuple[NodeId, ...] = ()

    def step(self, trigger: Trigger) -> Seconds | None:
        """Run one cycle; return the time until the policy must run again."""
        seen = self.backend.observe(self.look if trigger is Trigger.TICK else ())
        self.state = remember(self.state, seen)  # updated in place
        snapshot = assemble(self.state, trigger)
        plan, self.memory = self.policy.decide(snapshot, self.memory)
        verdict = check(plan, snapshot)
        self.journal.intend(trigger, seen, plan, verdict, self.memory)  # durable before acting
        done = tuple([self.backend.act(d) for d in verdict.accepted])
        self.journal.settle(done)
        self.look = plan.look
        return plan.wake_after

    def restore(self, lines: Sequence[dict[str, Any]]) -> None:
        """Restore the state of an earlier process by folding the observations of its journal again.
        Decisions are not repeated: the next observation shows their outcome.
        """
        known = max((i for i, line in enumerate(lines) if "memory" in line), default=-1)
        for i, line in enumerate(lines):
            if "state" in line:
                self.state = unfold_state(line["state"])
            else:
                self.state = remember(self.state, line["seen"])
            if i == known:
                self.memory = line["memory"]
            elif i > known:
                snapshot = assemble(self.state, line["trigger"])
                _, self.memory = self.policy.decide(snapshot, self.memory)
