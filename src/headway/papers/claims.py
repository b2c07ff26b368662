"""Claims of the papers, and whether our results agree with them."""

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
from headway.papers.measures import MEASURES, NO_CHANGE, SLOPES, Runs, slope
from headway.spec.base_model import Strict

Verdict = Literal["agrees", "misses", "open"]
"""`open`: the texts contradict each other, or the experiment to compare with was not run."""
Published = float | tuple[float, float] | str


class Rule(Strict):
    """The condition for agreement, described in published.yaml; exactly one field is set."""

    part: float | None = None
    points: float | None = None
    among: bool = False
    direction: Literal[-1, 1] | None = None
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
        if self.direction is not None:
            return mean * self.direction > NO_CHANGE
        low, high = bounds(published)
        if self.part is not None:
            return abs(mean - low) <= self.part * abs(low)
        if self.points is not None:
            near = low - self.points <= mean <= high + self.points
            return near and abs(mean) > NO_CHANGE and (mean > 0) == (high > 0)
        return min(ours) <= low <= max(ours)

    def describe(self, unit: str) -> str:
        texts = {
            "part": f"within {100 * (self.part or 0):g} %",
            "points": f"same direction, within {self.points or 0:g}{' points' * (unit == '%')}",
            "among": "among our seeds",
            "direction": "lower" if self.direction == -1 else "higher",
            "lower_than": f"lower than in {self.lower_than}",
        }
        (rule,) = self.model_fields_set
        return texts[rule]


def bounds(published: Published) -> tuple[float, float]:
    """The published range; a number is a range of one."""
    assert not isinstance(published, str)  # noqa: S101 - words have a rule without numbers
    return published if isinstance(published, tuple) else (published, published)


class Claim(Strict):
    what: str
    at: Setting | Literal["baseline"] | None = None
    over: tuple[Setting, ...] = ()
    """Several settings instead of one: the mean over them."""
    arm: str = ""
    against: str = ""
    load: float | Literal["best"] | None = None
    measure: str
    jobs: tuple[str, ...] = ()
    unit: Literal["s", "%", "points", "jobs"]
    published: Published
    agrees: Rule
    given: bool = False
    """The model table was derived from it."""
    source: Literal["text", "repository", "none"] = "text"
    """What publishes it. Only a figure of a paper's text is counted."""
    open: str = ""
    """Why it cannot be judged."""
    why: str = ""
    """A key of `reasons`."""

    def arms_in(self, experiment: Experiment) -> list[str]:
        """The arms whose mean it is about."""
        if self.arm or self.at == "baseline":
            return [experiment.switched(self.arm or experiment.baseline)]
        return [experiment.paper_arm(setting) for setting in self.over or (self.at,)]


class Publication(Strict):
    about: str
    shown: Setting | None = None
    """The setting of the paper's figures; the first if omitted."""
    figures: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Numbers of the thesis' figures by chart: of the baseline, and of the paper's policy."""
    growth: dict[str, str] = Field(default_factory=dict)
    """Jobs by the number of the figure with their growth efficiency."""
    claims: tuple[Claim, ...] = ()
    order: tuple[str, ...] = ()
    """Arms from slowest to fastest. No text publishes such an order."""

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
                    agrees=Rule(direction=-1),
                    source="none",
                )


class Reading(Strict):
    """What a text leaves open, and the setting of the paper mode that reads it otherwise."""

    policy: str
    switch: str
    experiments: tuple[str, ...]


class Figure(Strict):
    number: str
    about: str
    here: str
    """How it is reproduced, or why not."""


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


def readings() -> list[Reading]:
    return [Reading.model_validate(one) for one in _file()["readings"]]


def figures() -> list[Figure]:
    """The figures of the thesis with results, and other results of the papers."""
    return [Figure.model_validate(one) for one in _file()["figures"]]


@cache
def published() -> dict[str, Publication]:
    """The publications by experiment."""
    given = {name: one for name, one in _file().items() if name.startswith("E-")}
    return {name: Publication.model_validate(one) for name, one in given.items()}


@dataclass(frozen=True, slots=True)
class JudgedClaim:
    claim: Claim
    arms: list[str]
    against: str
    load: Load
    ours: list[float]
    """By seed."""
    without_deadlock: list[float]
    """Those of the seeds in which the baseline has no deadlock."""
    verdict: Verdict

    @property
    def counted(self) -> bool:
        """Whether it is a published figure that the model table was not derived from."""
        return self.claim.source == "text" and not self.claim.given and self.verdict != "open"

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
    verdict = "open" if claim.open else rule.judge(claim.published, ours, other)
    if verdict == "agrees" and without:
        verdict = rule.judge(claim.published, without, other)
    against = claim.against or e.baseline
    return JudgedClaim(claim, claim.arms_in(e), against, load, ours, without, verdict)


def measure(claim: Claim, runs: Runs, load: Load) -> list[float]:
    """The claim's measure in these runs, by seed."""
    if claim.measure in SLOPES:
        assert isinstance(claim.at, tuple)  # noqa: S101 - checked by a test of published.yaml
        return slope(runs, claim.at, claim.jobs, along=SLOPES[claim.measure])
    e, arms = runs.experiment, runs.results[load]
    by_arm = []
    for arm in claim.arms_in(e):
        pairs = zip(arms[arm], arms[claim.against or e.baseline], strict=True)
        by_arm.append([MEASURES[claim.measure](a, b, claim.jobs) for a, b in pairs])
    return [fmean(seed) for seed in zip(*by_arm, strict=True)]


def _load(claim: Claim, runs: Runs) -> Load:
    """The claim's load; `best`: the one with the largest change in the published direction."""
    if claim.load != "best":
        return claim.load
    sign = 1 if bounds(claim.published)[1] > 0 else -1
    return max(runs.results, key=lambda load: sign * fmean(measure(claim, runs, load)))
