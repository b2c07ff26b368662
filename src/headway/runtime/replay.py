"""Replay a journal: run the same loop with a backend that reads the observations from the file.

With the policy that wrote the journal, there must be no difference, because deciding is pure. With
another policy, the differences show what it would have decided.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from headway.core.cycle.policy import Policy
from headway.core.cycle.validate import Verdict
from headway.core.model.decision import Decision, Outcome, Plan, Refused
from headway.core.model.serialization import to_plain
from headway.core.model.snapshot import Observation, Trigger
from headway.core.model.units import NodeId, Seconds
from headway.errors import ConfigError, HeadwayError
from headway.policy.registry import build
from headway.runtime.journal import Journal, digest, intact, read
from headway.runtime.loop import Loop
from headway.runtime.run_directory import RunDirectory

TIMING = "when to wake"
"""Difference of a cycle with the same decisions and another time to wake."""


@dataclass(frozen=True, slots=True)
class Difference:
    cycle: int
    at_s: Seconds
    then: tuple[Decision, ...]
    """Decisions in the journal that the policy does not make."""
    now: tuple[Decision, ...]
    """Decisions of the policy that are not in the journal."""
    what: str = "plan"

    @property
    def only_reasons(self) -> bool:
        """Whether the decisions differ only in their reasons."""
        then, now = ([replace(d, reason="") for d in each] for each in (self.then, self.now))
        return self.what == "plan" and then == now

    def plain(self) -> dict[str, Any]:
        then, now = to_plain(self.then), to_plain(self.now)
        return {
            "cycle": self.cycle, "at_s": self.at_s, "what": self.what, "then": then, "now": now
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Replay:
    policy: str
    same_policy: bool
    """Whether the policy is the one that wrote the journal."""
    cycles: int
    differences: list[Difference]


class _Tape(Journal):
    """Backend and journal: returns recorded observations and compares decisions."""

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
        return found or Refused(decision=decision, why="the journal has no outcome of it")

    def intend(
        self, trigger: Trigger, seen: Observation, plan: Plan, verdict: Verdict, memory: Any
    ) -> None:
        del trigger, verdict
        was: Plan = self.line["plan"]
        if plan != was:
            then = tuple(d for d in was.decisions if d not in plan.decisions)
            now = tuple(d for d in plan.decisions if d not in was.decisions)
            self._note(seen.at, then, now, "plan" if then or now else TIMING)
        elif "digest" in self.line and self.line["digest"] != digest(memory):
            self._note(seen.at, (), (), "memory")

    def _note(self, at: Seconds, then: Any, now: Any, what: str) -> None:
        self.differences.append(Difference(self.line["cycle"], at, then, now, what))


def replay(lines: Iterable[dict[str, Any]], policy: Policy[Any]) -> tuple[int, list[Difference]]:
    """Return the number of cycles, and the differences between the journal and this policy."""
    tape, cycles = _Tape(), 0
    loop = Loop(tape, policy, tape)
    for line in lines:
        if "state" in line and not cycles:  # the beginning was discarded
            loop.restore([line])
            cycles += 1
            continue
        tape.line = line
        loop.step(line["trigger"])
        cycles += 1
    return cycles, tape.differences


def fold(lines: Sequence[dict[str, Any]], policy: Policy[Any]) -> Loop[Any]:
    """Return a loop with the state and the memory after the last of these cycles."""
    tape = _Tape()
    loop = Loop(tape, policy, tape)
    loop.restore(lines)
    return loop


def recorded_policy(name: str, path: Path) -> Policy[Any]:
    """Return the policy that a journal names."""
    try:
        return build(name)
    except HeadwayError as error:
        error.where = error.where or str(path)
        raise


def find_journal(name: str, data: Path) -> Path:
    """Return the journal of this path, of a run's directory, or of a run by its name."""
    path = Path(name)
    if path.is_dir() and (path / "journal.jsonl").exists():
        return path / "journal.jsonl"
    if path.exists() or path.suffix == ".jsonl":
        return path
    return RunDirectory.find(data, name).journal


def replay_journal(path: Path, policy: str = "", *, reasons: bool = False) -> Replay:
    """Replay a journal by its own policy or by another. Without `reasons`, decisions that differ
    only in their reason are equal.
    """
    with intact(str(path)):
        return _replay(path, policy, reasons=reasons)


def _replay(path: Path, policy: str, *, reasons: bool) -> Replay:
    lines = read(path)
    first = next(lines, None)
    if first is None:
        raise ConfigError("the journal has no cycle", where=str(path))
    if first["cycle"] > 1 and "state" not in first:
        raise ConfigError(
            f"the journal starts at cycle {first['cycle']}: its beginning was discarded",
            where=str(path),
            hint="replay a journal that starts at cycle 1",
        )
    recorded = first.get("policy", "")
    if not (policy or recorded):
        raise ConfigError(
            "the journal does not name its policy", where=str(path), hint="name it with --policy"
        )
    real = "@" if recorded.startswith("@") else ""  # the mode of real runs, for any policy
    chosen = f"{real}{policy}" if policy else recorded
    made = build(chosen) if policy else recorded_policy(recorded, path)
    cycles, found = replay(chain([first], lines), made)
    if not reasons:
        found = [d for d in found if not d.only_reasons]
    if chosen != recorded:  # the memory of another policy differs by nature
        found = [d for d in found if d.what != "memory"]
    return Replay(chosen, chosen == recorded, cycles, found)
