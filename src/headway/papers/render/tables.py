"""Tables and sentences about reproduced experiments, for the terminal, Markdown and HTML."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from headway.papers.claims import Figure, JudgedClaim
from headway.papers.experiments import OURS, REFERENCE, Load
from headway.papers.readings import Outcome
from headway.papers.render.figures import arm_figures
from headway.papers.runner import Reproduction
from headway.runtime.result import over_seeds

AGAINST = f"{OURS} against {REFERENCE}"
MOST_ARMS = 8
"""An experiment with more arms lists only the main ones for its first seed."""
NOTES = {
    False: "Times are seconds, mean ± standard deviation over the seeds. Better, worse: jobs that "
    "finish more than 0.1 % earlier or later than under the baseline. Losers: jobs that finish "
    "more than 1 % and one second later. One job: the best and the worst change over all seeds. "
    "ΣG: growth efficiency summed over the jobs (equation 4.3), mean over intervals of 20 s of the "
    "first seed. CPU: mean use of the nodes until the last job finishes, first seed. On several "
    "nodes, a job also gains or loses by its placement, which depends on the jobs present. "
    f"{AGAINST}: the same runs, compared with even placement, to which the guarantees refer.",
    True: "Waiting, running, elapsed: seconds, mean over jobs and seeds. A change is relative to "
    "pod-by-pod placement of the same jobs, mean over the seeds. Allocated: fraction of the "
    "cluster's GPUs (E-K1: cores) that replicas hold until the last job finishes. Useful: fraction "
    "that makes progress, without half-started jobs and without waiting for slower or distant "
    "workers. To quality: seconds until 95 % of a job's improvement in loss. No deadlock: the same "
    "figure over the seeds in which pod-by-pod placement has no deadlock.",
}
"""What the columns mean, for single-replica (False) and distributed (True) jobs."""


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    cell: Callable[[Any], str] = str
    numeric: bool = True
    optional: bool = False
    """Omitted in a narrow terminal."""


@dataclass(frozen=True, slots=True)
class Table:
    columns: list[Column]
    rows: list[list[str]]

    @property
    def header(self) -> list[str]:
        return [c.title for c in self.columns]

    @property
    def numeric(self) -> list[int]:
        return [i for i, c in enumerate(self.columns) if c.numeric]

    def narrow(self) -> "Table":
        """Without optional columns."""
        kept = [i for i, c in enumerate(self.columns) if not c.optional]
        return Table([self.columns[i] for i in kept], [[row[i] for i in kept] for row in self.rows])


def short(arm: str) -> str:
    """The name of an arm of a single-replica experiment in a table.

    >>> short("flowcon:paper,threshold=0.05,interval=20"), short("flowcon:paper"), short("fair")
    ('paper 5 %, 20 s', 'paper', 'fair')
    """
    name, _, settings = arm.partition(":paper")
    given = dict(part.split("=") for part in settings.split(",") if part)
    if name == arm:
        return arm
    if not given:
        return "paper"
    return f"paper {100 * float(given['threshold']):g} %, {given['interval']} s"


# -- claims ----------------------------------------------------------------------------------------


def claim_table(one: Reproduction) -> Table:
    """Published and reproduced values, one row for each claim."""
    distributed = one.experiment.distributed
    only_distributed = ("against", "load", "no deadlock")
    columns = [c for c in _CLAIM_COLUMNS if distributed or c.title not in only_distributed]
    return Table(columns, [[c.cell(j) for c in columns] for j in one.judged])


def _arm(j: JudgedClaim) -> str:
    if len(j.arms) > 1:
        return f"mean of {len(j.arms)} settings"
    return j.arms[0] if j.load is not None else short(j.arms[0]).removeprefix("paper ")


def _verdict(j: JudgedClaim) -> str:
    if j.verdict == "open":
        return "open" if j.claim.open else "open: not run"
    if j.claim.source != "text":
        return f"not counted: {'holds' if j.verdict == 'agrees' else 'fails'}"
    return "given" if j.verdict == "agrees" and j.claim.given else j.verdict


def _published(j: JudgedClaim) -> str:
    value, unit = j.claim.published, j.claim.unit
    if isinstance(value, str):
        return value
    form = "+g" if unit in ("%", "points") else "g"
    values = value if isinstance(value, tuple) else (value,)
    return f"{' to '.join(f'{v:{form}}' for v in values)} {unit}"


def _ours(j: JudgedClaim, values: Sequence[float]) -> str:
    """Mean over the seeds, and their range where the rule compares with it."""
    found, unit = over_seeds(values), j.claim.unit
    if found is None:
        return ""
    form = {"%": "+.1f", "points": "+.2f"}.get(unit, ".1f")
    text = f"{found['mean']:{form}}"
    if j.claim.agrees.among:
        return f"{text} ({found['min']:{form}} to {found['max']:{form}})"
    return text if unit == "jobs" else f"{text} {unit}"


_CLAIM_COLUMNS = [
    Column("figure", lambda j: j.claim.what, numeric=False),
    Column("arm", _arm, numeric=False),
    Column("against", lambda j: j.against, numeric=False, optional=True),
    Column("load", lambda j: f"{j.load:g}"),
    Column("published", _published),
    Column("here", lambda j: _ours(j, j.ours)),
    Column("no deadlock", lambda j: _ours(j, j.without_deadlock), optional=True),
    Column("agrees if", lambda j: j.claim.agrees.describe(j.claim.unit), numeric=False,
           optional=True),
    Column("", _verdict, numeric=False),
]  # fmt: skip


def plain(text: str) -> str:
    """Return a remark without the marks of Markdown.

    >>> plain("Only *given* ones ([0031](../0031.md), `VAE`).")
    'Only given ones (0031, VAE).'
    """
    return re.sub(r"\[([^]]*)\]\([^)]*\)|[*`]", r"\1", text)


def count_agreement(found: Sequence[Reproduction]) -> str:
    """One sentence on how many claims agree."""
    claims = [j for one in found for j in one.judged]
    if not claims:
        return "Nothing is published to compare with."
    counted = [j.verdict for j in claims if j.counted]
    text = f"{counted.count('agrees')} of {len(counted)} published figures agree."
    given = sum(j.claim.given for j in claims)
    ours = [j.verdict for j in claims if j.claim.source != "text"]
    left = [
        f"{given} from which the model table was derived" * (given > 0),
        f"{len(ours)} that no text publishes, of which {ours.count('agrees')} hold" * bool(ours),
        f"{sum(j.verdict == 'open' for j in claims)} open",
    ]
    if left := [part for part in left if part and part != "0 open"]:
        text += f" Not counted: {'; '.join(left)}."
    return text


def verdict(one: Reproduction) -> str:
    """How many claims agree, and which miss."""
    opened = "".join(f" Open: {j.claim.what}: {j.claim.open}." for j in one.judged if j.claim.open)
    if not one.misses:
        return count_agreement([one]) + opened
    reasons: dict[str, dict[str, list[str]]] = {}
    for j in one.misses:
        arm = _arm(j)
        where = arm if j.load is None else f"{arm} against {j.against} at load {j.load:g}"
        reasons.setdefault(j.why, {}).setdefault(j.claim.what, []).append(where)
    parts = [
        "; ".join(f"{what} ({' / '.join(arms)})" for what, arms in those.items())
        + (f": {why}" if why else "")
        for why, those in reasons.items()
    ]
    missed = ". ".join(p[0].upper() + p[1:] for p in parts)
    return f"{count_agreement([one])} Missed: {missed}.{opened}"


# -- arms ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Arm:
    """A row of a table of arms."""

    load: Load
    name: str
    baseline: bool
    figures: dict[str, Any]

    def mean(self, name: str) -> str:
        return f"{self.figures[name]['mean']:.0f}"

    def spread(self, name: str) -> str:
        sd = self.figures[name]["sd"]
        return self.mean(name) + (f"±{sd:.0f}" if sd >= 0.5 else "")

    def fraction(self, name: str) -> str:
        return f"{100 * self.figures[name]['mean']:.0f} %"

    def change(self, name: str) -> str:
        by = round(self.figures[name]["change_percent"], 1) + 0.0  # -0.0 is 0
        return "" if self.baseline else f"{by:+.1f} %"

    def count(self, name: str) -> str:
        return "" if self.baseline else f"{self.figures[name]:.1f}"

    def one_job(self) -> str:
        best, worst = (self.figures[f"{x}_change_percent"] for x in ("best", "worst"))
        return "" if self.baseline else f"{best:+.0f} to {worst:+.0f} %"

    def cpu(self) -> str:
        nodes = self.figures["cpu_by_node"].values()
        return f"{100 * sum(nodes) / len(nodes):.0f} %"

    def to_quality(self) -> str:
        seconds = self.figures["to_quality_s"]
        return "" if seconds is None else f"{seconds:.0f}"


def arm_table(one: Reproduction) -> Table:
    """Figures of each arm, by load."""
    e = one.experiment
    columns = _DISTRIBUTED_COLUMNS if e.distributed else _SINGLE_COLUMNS
    rows = []
    for load, arm in product(e.workloads, e.arms):
        name = arm if e.distributed else short(arm)
        row = _Arm(load, name, arm == e.baseline, arm_figures(one, load, arm))
        rows.append([c.cell(row) for c in columns])
    if REFERENCE in e.arms:
        row = _Arm(None, AGAINST, False, arm_figures(one, None, OURS, against=REFERENCE))
        rows.append([c.cell(row) for c in columns])
    return Table(columns, rows)


_SINGLE_COLUMNS = [
    Column("arm", lambda a: a.name, numeric=False),
    Column("mean", lambda a: a.spread("mean_completion_s")),
    Column("", lambda a: a.change("mean_completion_s")),
    Column("median", lambda a: a.mean("median_completion_s"), optional=True),
    Column("p95", lambda a: a.mean("p95_completion_s"), optional=True),
    Column("makespan", lambda a: a.spread("makespan_s")),
    Column("", lambda a: a.change("makespan_s")),
    Column("better", lambda a: a.count("better")),
    Column("worse", lambda a: a.count("worse")),
    Column("losers", lambda a: a.count("losers")),
    Column("one job", _Arm.one_job, optional=True),
    Column("moves", lambda a: f"{a.figures['moves']:.1f}"),
    Column("ΣG", lambda a: f"{a.figures['growth_efficiency']:.3f}", optional=True),
    Column("CPU", _Arm.cpu, optional=True),
]
_DISTRIBUTED_COLUMNS = [
    Column("load", lambda a: f"{a.load:g}"),
    Column("arm", lambda a: a.name, numeric=False),
    Column("waiting", lambda a: a.mean("waiting_s")),
    Column("running", lambda a: a.mean("running_s")),
    Column("elapsed", lambda a: a.mean("elapsed_s")),
    Column("", lambda a: a.change("elapsed_s")),
    Column("makespan", lambda a: a.mean("makespan_s")),
    Column("", lambda a: a.change("makespan_s"), optional=True),
    Column("allocated", lambda a: a.fraction("allocated"), optional=True),
    Column("useful", lambda a: a.fraction("useful")),
    Column("", lambda a: a.change("useful")),
    Column("to quality", _Arm.to_quality, optional=True),
    Column("deadlocks", lambda a: f"{a.figures['deadlocks']}", optional=True),
]


def reading_table(outcomes: Sequence[Outcome]) -> Table:
    """Published figures that agree, as the paper mode reads the text and otherwise."""
    columns = [
        Column("policy", lambda o: f"{o.reading.policy}:paper", numeric=False),
        Column("read otherwise", lambda o: f"`{o.reading.switch}`", numeric=False),
        Column("figures", lambda o: f"{sum(o.counted.values())}"),
        Column("agree", lambda o: f"{sum(o.agree.values())}"),
        Column("agree, read otherwise", lambda o: f"{sum(o.otherwise.values())}"),
        Column("by experiment", lambda o: ", ".join(
            f"{name} {n} → {o.otherwise[name]}" for name, n in o.agree.items()
        ), numeric=False, optional=True),
    ]  # fmt: skip
    return Table(columns, [[c.cell(o) for c in columns] for o in outcomes])


def figure_table(found: Sequence[Figure]) -> Table:
    """The papers' figures, and how each is reproduced."""
    columns = [Column(title, numeric=False) for title in ("figure", "shows", "here")]
    return Table(columns, [[f.number, f.about, f.here] for f in found])


def observed_table(one: Reproduction) -> Table:
    """Growth efficiency and CPU by node of the first seed."""
    e = one.experiment
    main = (e.baseline, one.shown, *e.policies, OURS)
    arms = e.arms if len(e.arms) <= MOST_ARMS else main
    nodes = one.observed[e.baseline].nodes
    columns = [Column("arm, first seed", numeric=False), Column("ΣG"), *map(Column, nodes)]
    rows = []
    for arm in arms:
        run = one.observed[arm]
        cpu = (f"{100 * run.mean_cpu(node):.0f} %" for node in nodes)
        rows.append([short(arm), f"{run.mean_growth:.3f}", *cpu])
    return Table(columns, rows)
