"""What the papers publish, claim by claim, and whether our results agree with it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import pairwise
from statistics import fmean
from typing import Literal, Self

import yaml
from pydantic import Field, model_validator

from headway.papers.experiments import Experiment, Load, Setting
from headway.papers.measures import MEASURES, NO_CHANGE, SLOPE, Runs, slope
from headway.spec.base_model import Strict

WHY = {
    "full": "the jobs fill the node from start to end, so fair sharing's makespan is already the "
    "sum of their work and no policy can be shorter",
    "listener": "Algorithm 2 reacts to an arrival at once and keeps the other jobs at their floor "
    "until the interval ends, so a longer interval helps the new job more; the published gains "
    "shrink instead, which the paper does not explain",
    "growth": "CPU given to one job is taken from another, and growth says little about how much "
    "work either has left: at least as many jobs lose as gain",
    "sizes": "the job sizes that give the published means of E-S1 and E-S6 give far more here, so "
    "these runs cannot have had the same sizes",
    "even": "the default scheduler counts pods and so spreads similar jobs evenly; a converged job "
    "asks to move only if two others on its node still grow, which is rare here (never in E-S1), "
    "and the possible gain is small",
    "moves": "a converged job that moves still needs the rest of its work and takes the CPU from "
    "the jobs on its new node: the fullest node is relieved, the mean hardly changes",
    "rule": "the placement rule is our reconstruction, and FlowCon's limits leave CPU unused on "
    "every node",
    "waits": "the jobs are similar in size, so running all of them at once on few workers is no "
    "better than running them one after another on many",
    "much": "the gain depends on how much pod-by-pod placement loses, and so on arrivals, sizes, "
    "machines and the duration of a deadlock, none of which is published",
}
"""The known reasons for a miss."""
Verdict = Literal["agrees", "misses", "open"]
"""`open`: the claim compares with an experiment that was not run."""
Published = float | tuple[float, float] | str


class Rule(Strict):
    """The condition for agreement, described in published.yaml; exactly one field is set."""

    sign: bool = False
    part: float | None = None
    points: float | None = None
    range: tuple[float, float] | None = None
    least: float | None = None
    most: float | None = None
    among: bool = False
    lower_than: str = ""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if len(self.model_fields_set) != 1:
            raise ValueError("give one rule")
        return self

    def judge(
        self, published: Published, ours: Sequence[float], other: Sequence[float] | None = None
    ) -> Verdict:
        """Judge our values by seed; `other` is the same measure in the experiment `lower_than`."""
        if not self.lower_than:
            return "agrees" if self._holds(published, ours) else "misses"
        if other is None:
            return "open"
        return "agrees" if fmean(ours) < fmean(other) else "misses"

    def _holds(self, published: Published, ours: Sequence[float]) -> bool:
        mean = fmean(ours)
        bounds = self.range or (self.least, self.most)
        if bounds != (None, None):
            low, high = bounds
            return (low is None or mean >= low) and (high is None or mean <= high)
        assert isinstance(published, float)  # noqa: S101 - the other rules compare with one number
        if self.sign:
            return mean > NO_CHANGE if published > 0 else mean < -NO_CHANGE
        if self.part is not None:
            return abs(mean - published) <= self.part * abs(published)
        if self.points is not None:
            return abs(mean - published) <= self.points
        return min(ours) <= published <= max(ours)

    def describe(self, unit: str) -> str:
        percent = unit == "%"
        low, high = self.range or (0.0, 0.0)
        texts = {
            "sign": "the same direction",
            "part": f"within {100 * (self.part or 0):g} %",
            "points": f"within {self.points or 0:g} {'points' if percent else unit}",
            "range": f"{low:g} to {high:g} {unit}",
            "least": f"at least {self.least or 0:{'+g' if percent else 'g'}}{' %' * percent}",
            "most": f"at most {self.most:g} %" if self.most else "lower",
            "among": "among our seeds",
            "lower_than": f"lower than in {self.lower_than}",
        }
        (rule,) = self.model_fields_set
        return texts[rule]


class Claim(Strict):
    what: str
    at: Setting | Literal["baseline"] | None = None
    arm: str = ""
    against: str = ""
    load: float | Literal["best"] | None = None
    measure: str
    jobs: tuple[str, ...] = ()
    unit: Literal["s", "%", "points", "jobs"]
    published: Published
    agrees: Rule
    given: bool = False
    why: str = ""
    """A key of `WHY`."""

    def arm_in(self, experiment: Experiment) -> str:
        if self.arm or self.at == "baseline":
            return self.arm or experiment.baseline
        return experiment.paper_arm(self.at)


class Publication(Strict):
    about: str
    shown: Setting | None = None
    """The setting of the paper's figures; the first if omitted."""
    claims: tuple[Claim, ...] = ()
    order: tuple[str, ...] = ()
    order_why: dict[str, str] = Field(default_factory=dict)
    """Why an arm is out of order, by its name."""

    def all_claims(self, experiment: Experiment) -> Iterator[Claim]:
        """The claims, and one for each step of the order at each load."""
        yield from self.claims
        for before, after in pairwise(self.order):
            for load in experiment.workloads:
                yield Claim(
                    what="elapsed, in order",
                    arm=after,
                    against=before,
                    load=load,
                    measure="mean_change",
                    unit="%",
                    published="lower",
                    agrees=Rule(most=0.0),
                    why=self.order_why.get(after, ""),
                )


@cache
def published() -> dict[str, Publication]:
    text = (files("headway") / "data" / "published.yaml").read_text(encoding="utf-8")
    loaded = yaml.load(text, Loader=yaml.CSafeLoader)
    return {name: Publication.model_validate(given) for name, given in loaded.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedClaim:
    """A published claim with our values."""

    claim: Claim
    arm: str
    against: str
    load: Load
    ours: list[float]
    """By seed."""
    without_deadlock: list[float]
    """Those of the seeds in which the baseline has no deadlock."""
    verdict: Verdict

    @property
    def why(self) -> str:
        """The known reason for a miss."""
        return WHY.get(self.claim.why, "") if self.verdict == "misses" else ""


def judge(claim: Claim, runs: Runs, others: Mapping[str, Runs]) -> JudgedClaim:
    """Measure what a claim is about and judge it; `others`: all experiments that ran, by id."""
    e, rule = runs.experiment, claim.agrees
    load = _load(claim, runs)
    ours = measure(claim, runs, load)
    calm = [r.deadlocks == 0 for r in runs.results[load][e.baseline]]
    without = [value for value, ok in zip(ours, calm, strict=True) if ok]
    compared = others.get(rule.lower_than)
    other = measure(claim, compared, load) if compared else None
    verdict = rule.judge(claim.published, ours, other)
    if verdict == "agrees" and without:
        verdict = rule.judge(claim.published, without, other)
    return JudgedClaim(
        claim=claim,
        arm=claim.arm_in(e),
        against=claim.against or e.baseline,
        load=load,
        ours=ours,
        without_deadlock=without,
        verdict=verdict,
    )


def measure(claim: Claim, runs: Runs, load: Load) -> list[float]:
    """The claim's measure in these runs, by seed."""
    if claim.measure == SLOPE:
        return slope(runs, claim.at[0] if isinstance(claim.at, tuple) else None, claim.jobs)
    e, arms = runs.experiment, runs.results[load]
    pairs = zip(arms[claim.arm_in(e)], arms[claim.against or e.baseline], strict=True)
    return [MEASURES[claim.measure](a, b, claim.jobs) for a, b in pairs]


def _load(claim: Claim, runs: Runs) -> Load:
    if claim.load != "best":
        return claim.load
    sign = 1 if claim.agrees.least is not None else -1
    return max(runs.results, key=lambda load: sign * fmean(measure(claim, runs, load)))
