"""What the papers publish, figure by figure, and what counts as agreement with it."""

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from statistics import fmean
from typing import Annotated, Literal, Self

import yaml
from pydantic import Field, model_validator

from headway.spec.base_model import Strict

SAME = 0.1
"""A change of less than this, in % or points, is none."""
WHY = {
    "full": "the jobs fill the node from start to end: fair sharing's makespan is the sum of "
    "their work already, and no policy can be shorter",
    "listener": "a job that arrives is noticed at once here, as Algorithm 2 says, and the others "
    "are kept at their floor until the interval is over, so that a longer one helps it more; the "
    "published gains shrink instead, which the text does not explain",
    "growth": "what one job gets is taken from another, and growth says little of how much either "
    "has left: here at least as many jobs lose as gain",
    "sizes": "the job sizes that give the published means of E-S1 and E-S6 give far more here, so "
    "that these runs cannot have had the same",
    "even": "the default scheduler counts pods, and so keeps like jobs even on the nodes; a "
    "converged job asks to be moved only where two others still learn, which is seldom the case "
    "here (in E-S1 never), and there is little to gain",
    "moves": "a converged job that moves still needs the rest of its work, and takes the CPU for "
    "it from those where it goes: the fullest node is relieved, the mean hardly changes",
    "rule": "the rule of placement is a reconstruction of ours, and FlowCon's ceilings leave CPU "
    "unused on every node",
}
"""Why a figure does not agree, as far as we know."""
Verdict = Literal["agrees", "misses", "open"]
"""`open`: it is judged against another experiment, which was not run."""


class Agreement(Strict):
    """One of these; what they mean stands at the head of published.yaml."""

    sign: bool = False
    part: float | None = None
    points: float | None = None
    range: tuple[float, float] | None = None
    least: float | None = None
    among: bool = False
    lower_than: str = ""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if len(self.model_fields_set) != 1:
            raise ValueError("give one rule")
        return self


class Figure(Strict):
    what: str
    at: tuple[float, float] | Literal["baseline"] | None = None
    measure: str
    jobs: tuple[str, ...] = ()
    """The jobs it is about, where it is not about all."""
    unit: Literal["s", "%", "points", "jobs"]
    published: float | tuple[float, float] | str
    agrees: Agreement
    given: bool = False
    """The table of models was made from it, so that agreement proves nothing."""
    why: Annotated[str, Field(pattern="^(full|listener|growth|sizes|even|moves|rule)?$")] = ""


class Publication(Strict):
    about: str
    shown: tuple[float, float] | None = None
    """The setting that the paper's pictures are of; the first, where there is one alone."""
    figures: tuple[Figure, ...] = ()


@cache
def published() -> dict[str, Publication]:
    text = (files("headway") / "data" / "published.yaml").read_text(encoding="utf-8")
    loaded = yaml.load(text, Loader=yaml.CSafeLoader)
    return {name: Publication.model_validate(given) for name, given in loaded.items()}


def judge(figure: Figure, ours: Sequence[float], other: Sequence[float] | None = None) -> Verdict:
    """`ours` by seed; `other`: the same measure in the experiment it is held against."""
    rule, mean = figure.agrees, fmean(ours)
    if rule.lower_than:
        if other is None:
            return "open"
        return "agrees" if mean < fmean(other) else "misses"
    return "agrees" if _holds(rule, mean, ours, figure.published) else "misses"


def _holds(
    rule: Agreement, mean: float, ours: Sequence[float], theirs: float | tuple[float, float] | str
) -> bool:
    if rule.range is not None:
        return rule.range[0] <= mean <= rule.range[1]
    if rule.least is not None:
        return mean >= rule.least
    assert isinstance(theirs, float)  # noqa: S101 - the other rules compare with one number
    if rule.sign:
        return mean > SAME if theirs > 0 else mean < -SAME
    if rule.part is not None:
        return abs(mean - theirs) <= rule.part * abs(theirs)
    if rule.points is not None:
        return abs(mean - theirs) <= rule.points
    return min(ours) <= theirs <= max(ours)


def spelled(figure: Figure) -> str:
    """The rule in words."""
    rule, unit = figure.agrees, "points" if figure.unit == "%" else figure.unit
    if rule.range is not None:
        return f"{rule.range[0]:g} to {rule.range[1]:g} {figure.unit}"
    if rule.least is not None:
        return f"at least {rule.least:g}"
    if rule.part is not None:
        return f"within {100 * rule.part:g} %"
    if rule.points is not None:
        return f"within {rule.points:g} {unit}"
    if rule.lower_than:
        return f"lower than in {rule.lower_than}"
    return "the same direction" if rule.sign else "among our seeds"
