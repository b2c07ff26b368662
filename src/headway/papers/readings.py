"""What the texts leave open: the experiments again, with the paper mode read otherwise."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headway.papers.claims import JudgedClaim, Publication, Reading, readings
from headway.papers.runner import Reproduction, reproduce


@dataclass(frozen=True, slots=True)
class Outcome:
    """Published figures about the paper mode that agree, by experiment."""

    reading: Reading
    counted: dict[str, int]
    agree: dict[str, int]
    otherwise: dict[str, int]


def read_otherwise(found: Sequence[Reproduction]) -> list[Outcome]:
    """Run what was reproduced once for each reading of its papers."""
    outcomes = []
    for reading in readings():
        ours = [one for one in found if one.experiment.id in reading.experiments]
        if not ours:
            continue
        others = reproduce(
            [one.experiment.reading(reading.switch) for one in ours],
            ours[0].runs.seeds,
            publications={one.experiment.id: _about_paper(one.publication) for one in ours},
        )
        ids = [one.experiment.id for one in ours]
        outcomes.append(
            Outcome(
                reading,
                counted=dict(zip(ids, (len(_judged(one)) for one in ours), strict=True)),
                agree=dict(zip(ids, (_agreeing(_judged(one)) for one in ours), strict=True)),
                otherwise=dict(zip(ids, (_agreeing(_judged(one)) for one in others), strict=True)),
            )
        )
    return outcomes


def _about_paper(publication: Publication) -> Publication:
    """Without claims about the baseline and about other policies."""
    claims = [
        c for c in publication.claims if c.at != "baseline" and ":paper" in (c.arm or ":paper")
    ]
    return publication.model_copy(update={"claims": tuple(claims), "order": ()})


def _judged(one: Reproduction) -> list[JudgedClaim]:
    return [j for j in one.judged if j.counted and all(":paper" in arm for arm in j.arms)]


def _agreeing(claims: Iterable[JudgedClaim]) -> int:
    return sum(j.verdict == "agrees" for j in claims)
