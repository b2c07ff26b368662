"""A journal, decided again: the same loop over a backend that reads the file.

With the policy that wrote it there is no difference, or something is not as pure as it should be.
With another, the differences are what that one would have done.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from headway.core.cycle.policy import Policy
from headway.core.cycle.validate import Verdict
from headway.core.model.decision import Decision, Outcome, Plan, Refused
from headway.core.model.snapshot import Observation, Trigger
from headway.core.model.units import NodeId, Seconds
from headway.runtime.journal import digest
from headway.runtime.loop import Loop


@dataclass(frozen=True, slots=True)
class Difference:
    cycle: int
    at_s: Seconds
    then: tuple[Decision, ...]
    """What was decided then and not now."""
    now: tuple[Decision, ...]
    """What is decided now and was not then."""
    what: str = "plan"


class _Tape:
    """Backend and journal in one: what was seen is given out, what is decided is compared."""

    def __init__(self) -> None:
        self.line: dict[str, Any] = {}
        self.differences: list[Difference] = []

    def observe(self, look: tuple[NodeId, ...] = ()) -> Observation:
        del look
        seen: Observation = self.line["seen"]
        return seen

    def act(self, decision: Decision) -> Outcome:
        known: tuple[Outcome, ...] = self.line.get("outcomes") or ()
        found = next((o for o in known if o.decision == decision), None)
        return found or Refused(decision=decision, why="nobody did that then")

    def intend(
        self, trigger: Trigger, seen: Observation, plan: Plan, verdict: Verdict, memory: Any
    ) -> None:
        del trigger, verdict
        was: Plan = self.line["plan"]
        if plan != was:
            then = tuple(d for d in was.decisions if d not in plan.decisions)
            now = tuple(d for d in plan.decisions if d not in was.decisions)
            self._note(seen.at, then, now, "plan" if then or now else "when to wake")
        elif "digest" in self.line and self.line["digest"] != digest(memory):
            self._note(seen.at, (), (), "memory")

    def settle(self, outcomes: tuple[Outcome, ...]) -> None:
        del outcomes

    def _note(self, at: Seconds, then: Any, now: Any, what: str) -> None:
        self.differences.append(Difference(self.line["cycle"], at, then, now, what))


def replay(lines: Iterable[dict[str, Any]], policy: Policy[Any]) -> tuple[int, list[Difference]]:
    """How many cycles there were, and where this policy decides otherwise."""
    tape, cycles = _Tape(), 0
    loop = Loop(tape, policy, tape)
    for line in lines:
        tape.line = line
        loop.step(line["trigger"])
        cycles += 1
    return cycles, tape.differences
