"""What is published of distributed jobs, beside what came out; seed by seed, on the same jobs."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import pairwise
from statistics import fmean
from typing import Any, Literal

import yaml
from pydantic import Field

from headway.papers.gang_experiments import GangExperiment
from headway.papers.measures import change
from headway.runtime.result import Result, over_seeds
from headway.spec.base_model import Strict

Measure = Literal["waiting", "running", "elapsed", "makespan", "allocated", "useful"]
FIELDS = {
    "waiting": "mean_waiting_s", "running": "mean_running_s", "elapsed": "mean_completion_s",
    "makespan": "makespan_s",
}  # fmt: skip
MEASURES: tuple[Measure, ...] = (
    "waiting", "running", "elapsed", "makespan", "allocated", "useful",
)  # fmt: skip
WHY = {
    "waits": "the jobs are much alike in size, and so it does not pay to let all of them run at "
    "once on few workers instead of one after the other on many",
    "much": "how much is gained is how much pod by pod loses, which depends on arrivals, sizes, "
    "machines and on how long a deadlock lasts; none of them is published",
}
"""Why a claim does not hold, as far as we know."""
Runs = dict[float, dict[str, list[Result]]]
"""By load and arm, in the order of the seeds."""


class Claim(Strict):
    what: str
    arm: str
    load: float | Literal["best"]
    measure: Measure
    against: str = "spread"
    published: float | tuple[float, float] | str
    most: float | None = None
    least: float | None = None
    why: str = ""


class GangPublication(Strict):
    about: str
    claims: tuple[Claim, ...]
    order: tuple[str, ...]
    why: dict[str, str] = Field(default_factory=dict)
    """Why an arm is out of order, by its name."""

    def all(self, loads: Sequence[float]) -> list[Claim]:
        """Its claims, and one for each step of its order at each load."""
        steps = [
            Claim(
                what="elapsed, in order",
                arm=after,
                against=before,
                load=load,
                measure="elapsed",
                published="lower",
                most=0.0,
                why=self.why.get(after, ""),
            )
            for before, after in pairwise(self.order)
            for load in loads
        ]
        return [*self.claims, *steps]


@cache
def published_gangs() -> dict[str, GangPublication]:
    text = (files("headway") / "data" / "published-gangs.yaml").read_text(encoding="utf-8")
    loaded = yaml.load(text, Loader=yaml.CSafeLoader)
    return {name: GangPublication.model_validate(given) for name, given in loaded.items()}


def value(result: Result, measure: Measure, resource: str) -> float:
    """Seconds, or the part of the cluster's `resource` that was held, or held to some use."""
    name = FIELDS.get(measure, f"{resource}_{measure}")
    return float(getattr(result, name) or 0.0)


def changes(
    ours: Sequence[Result], theirs: Sequence[Result], measure: Measure, resource: str
) -> list[float]:
    """In %, one a seed."""
    return [
        change(value(a, measure, resource), value(b, measure, resource))
        for a, b in zip(ours, theirs, strict=True)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedClaim:
    claim: Claim
    load: float
    ours: list[float]
    """By seed."""
    calm: list[float]
    """Those of them without a deadlock under the baseline."""

    @property
    def holds(self) -> bool:
        return self._holds(self.ours) and (not self.calm or self._holds(self.calm))

    def _holds(self, found: Sequence[float]) -> bool:
        mean, c = fmean(found), self.claim
        return (c.most is None or mean <= c.most) and (c.least is None or mean >= c.least)

    @property
    def why(self) -> str:
        return "" if self.holds else WHY.get(self.claim.why, "")

    def plain(self) -> dict[str, Any]:
        c = self.claim
        return {
            "what": c.what,
            "arm": c.arm,
            "against": c.against,
            "load": self.load,
            "published_percent": c.published,
            "ours_percent": over_seeds(self.ours),
            "without_deadlocks_percent": over_seeds(self.calm),
            "agrees_if": spelled(c),
            "verdict": "agrees" if self.holds else "misses",
            "why": self.why,
        }


def spelled(claim: Claim) -> str:
    if claim.most is not None:
        return "lower" if claim.most == 0 else f"at most {claim.most:g} %"
    return f"at least {claim.least:+g} %"


def judged(experiment: GangExperiment, claim: Claim, runs: Runs) -> JudgedClaim:
    def at(load: float) -> list[float]:
        arms = runs[load]
        return changes(arms[claim.arm], arms[claim.against], claim.measure, experiment.resource)

    loads = list(runs) if claim.load == "best" else [claim.load]
    sign = 1 if claim.least is not None else -1
    load = max(loads, key=lambda one: sign * fmean(at(one)))
    calm = [r.deadlocks == 0 for r in runs[load][experiment.baseline]]
    ours = at(load)
    return JudgedClaim(
        claim=claim, load=load, ours=ours, calm=[c for c, ok in zip(ours, calm, strict=True) if ok]
    )
