"""What the papers publish, claim by claim, and whether our results agree with it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import pairwise
from statistics import fmean
from typing import Any, Literal, Self

import yaml
from pydantic import Field, model_validator

from headway.papers.experiments import Experiment, Load, Setting
from headway.papers.measures import MEASURES, NO_CHANGE, SLOPE, Runs, slope
from headway.spec.base_model import Strict

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
    """A key of `reasons`."""

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
def _file() -> dict[str, Any]:
    text = (files("headway") / "data" / "published.yaml").read_text(encoding="utf-8")
    return dict(yaml.load(text, Loader=yaml.CSafeLoader))


def reasons() -> dict[str, str]:
    """The known reasons for a miss."""
    return dict(_file()["reasons"])


def remarks() -> list[str]:
    """Paragraphs on the claims about single-replica jobs."""
    return [text.format(**reasons()) for text in _file()["remarks"]]


@cache
def published() -> dict[str, Publication]:
    """The publications by experiment."""
    given = {name: one for name, one in _file().items() if name.startswith("E-")}
    return {name: Publication.model_validate(one) for name, one in given.items()}


@dataclass(frozen=True, slots=True)
class JudgedClaim:
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
        return reasons().get(self.claim.why, "") if self.verdict == "misses" else ""


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
    against = claim.against or e.baseline
    return JudgedClaim(claim, claim.arm_in(e), against, load, ours, without, verdict)


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
