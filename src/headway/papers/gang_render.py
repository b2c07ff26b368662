"""What was reproduced of distributed jobs, as rows, words and pictures."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from headway import __version__
from headway.papers.gang_claims import MEASURES, JudgedClaim, spelled
from headway.papers.gang_runner import GangsReproduced, gang_figures
from headway.report.charts.plots import Series, lines
from headway.report.page import Section, page, table
from headway.runtime.result import over_seeds

CLAIMS = ["figure", "arm", "against", "load", "published", "here", "no deadlock", "agrees if", ""]
ARMS = ["load", "arm", "waiting", "running", "elapsed", "", "makespan", "", "allocated", "useful",
        "", "to quality", "deadlocks"]  # fmt: skip
UNITS = {"allocated": "part of the cluster", "useful": "part of the cluster"}
EXPLAINED = (
    "Waiting, running and elapsed: seconds, mean over the jobs, then over the seeds; a change is "
    "against pod by pod on the same jobs, the mean over the seeds. Allocated: the part of the "
    "cluster's GPUs (E-K1: cores) that replicas held until the last job ended; useful: the part "
    "that made progress, without half-started jobs and without waiting for slower or distant "
    "workers. To quality: seconds until a job's loss had made 95 % of its way. No deadlock: the "
    "same figure over the seeds in which pod by pod had none."
)


def claim_rows(one: GangsReproduced) -> list[list[str]]:
    return [
        [
            j.claim.what,
            j.claim.arm,
            j.claim.against,
            f"{j.load:g}",
            _published(j),
            _percent(j.ours),
            _percent(j.calm),
            spelled(j.claim),
            "agrees" if j.holds else "misses",
        ]
        for j in one.judged
    ]


def _published(j: JudgedClaim) -> str:
    told = j.claim.published
    if isinstance(told, str):
        return told
    return f"{told:+g} %" if isinstance(told, float) else f"{told[0]:+g} to {told[1]:+g} %"


def _percent(values: Sequence[float]) -> str:
    found = over_seeds(values)
    return f"{found['mean']:+.1f} %" if found else ""


def arm_rows(one: GangsReproduced) -> list[list[str]]:
    return [_arm_row(one, load, arm) for load in one.runs for arm in one.runs[load]]


def _arm_row(one: GangsReproduced, load: float, arm: str) -> list[str]:
    f = gang_figures(one, load, arm)
    first = arm == one.experiment.baseline

    def by(name: str) -> str:
        return "" if first else f"{f[name]['change_percent']:+.1f} %"

    return [
        f"{load:g}",
        arm,
        *(f"{f[name]['mean']:.0f}" for name in ("waiting_s", "running_s")),
        f"{f['elapsed_s']['mean']:.0f}",
        by("elapsed_s"),
        f"{f['makespan_s']['mean']:.0f}",
        by("makespan_s"),
        f"{100 * f['allocated']['mean']:.0f} %",
        f"{100 * f['useful']['mean']:.0f} %",
        by("useful"),
        "" if f["to_quality_s"] is None else f"{f['to_quality_s']:.0f}",
        f"{f['deadlocks']}",
    ]


def gangs_counted(found: Sequence[GangsReproduced]) -> str:
    told = [j.holds for one in found for j in one.judged]
    return f"{sum(told)} of {len(told)} published figures and orders agree."


def gangs_verdict(one: GangsReproduced) -> str:
    """How many agree, and which do not."""
    said = gangs_counted([one])
    if not one.misses:
        return said
    named: dict[str, list[str]] = {}
    for j in one.misses:
        what = f"{j.claim.what} of {j.claim.arm} against {j.claim.against} at load {j.load:g}"
        named.setdefault(j.why, []).append(what)
    parts = ["; ".join(whats) + (f": {why}" if why else "") for why, whats in named.items()]
    return f"{said} Missed: {'. '.join(parts)}."


def gang_sections(found: Sequence[GangsReproduced]) -> list[Section]:
    return [_section(one) for one in found] + [
        Section(title="What the columns mean, with gangs", body="", text=EXPLAINED)
    ]


def _section(one: GangsReproduced) -> Section:
    claims = claim_rows(one)
    missed = [(r, len(CLAIMS) - 1) for r, row in enumerate(claims) if row[-1] == "misses"]
    parts = [
        table(CLAIMS, claims, numeric=(3, 4, 5, 6), highlight=missed),
        table(ARMS, arm_rows(one), numeric=(0, *range(2, len(ARMS)))),
        *gang_pictures(one),
    ]
    title = f"{one.experiment.id}: {one.publication.about}"
    return Section(title=title, body="".join(parts), text=gangs_verdict(one))


def gang_pictures(one: GangsReproduced) -> Iterator[str]:
    """Each measure against the load, a line an arm."""
    for measure in MEASURES:
        name = measure if measure in UNITS else f"{measure}_s"
        series = [
            Series(
                name=arm,
                points=[(load, gang_figures(one, load, arm)[name]["mean"]) for load in one.runs],
            )
            for arm in one.experiment.arms
        ]
        yield lines(
            series,
            x="load",
            y=UNITS.get(measure, "seconds"),
            title=f"{measure.capitalize()} against load",
            height=260,
        )


def write_gang_page(to: Path, found: Sequence[GangsReproduced]) -> None:
    lead = f"{gangs_counted(found)} Over {len(found[0].seeds)} seeds."
    made = f"Made by headway {__version__} reproduce."
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text(
        page("Distributed jobs, again", lead, gang_sections(found), made), encoding="utf-8"
    )


def gang_markdown(found: Sequence[GangsReproduced]) -> list[str]:
    """Sections for the documentation."""
    lines_: list[str] = []
    for one in found:
        lines_ += [f"## {one.experiment.id}", "", f"{one.publication.about}.", ""]
        lines_ += [*_rows(CLAIMS, claim_rows(one)), "", *_rows(ARMS, arm_rows(one)), ""]
        lines_ += [gangs_verdict(one), ""]
    return [*lines_[:-1], "", EXPLAINED]


def _rows(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [
        f"| {' | '.join(header)} |",
        "|" + "---|" * len(header),
        *(f"| {' | '.join(row)} |" for row in rows),
    ]


def write_gang_markdown(to: Path, found: Sequence[GangsReproduced]) -> None:
    seeded = f"{len(found[0].seeds)} seeds, every policy on the same drawn jobs."
    head = [
        "# Distributed jobs: published and reproduced",
        "",
        "Made by `headway reproduce E-D1 E-D2 E-K1 --markdown FILE`; do not edit.",
        "",
        f"{seeded} {gangs_counted(found)}",
        "",
    ]
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text("\n".join([*head, *gang_markdown(found)]) + "\n", encoding="utf-8")
