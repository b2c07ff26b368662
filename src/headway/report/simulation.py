"""Simulate a workload or a trace as a user's options say, and write the report page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headway.errors import ConfigError
from headway.report.comparison import write_report
from headway.runtime.result import Result
from headway.sim.compare import Progress, compare, journal_name, run_all
from headway.sim.trace_import import Cluster, read_trace
from headway.spec.load import read_workload


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationOptions:
    """The options of `headway simulate`."""

    workload: Path | None = None
    trace: Path | None = None
    trace_options: Mapping[str, Any] = field(default_factory=dict)
    """`format`, and fields of `Cluster`; None: the default."""
    policies: Sequence[str] = ()
    seeds: int = 1
    backoff: bool = True
    html: Path | None = None
    journal: Path | None = None

    @property
    def given(self) -> dict[str, Any]:
        """The options of a trace that the user set."""
        return {k: v for k, v in self.trace_options.items() if v is not None}

    def __post_init__(self) -> None:
        """Raise if two options contradict each other."""
        if (self.workload is None) == (self.trace is None):
            raise ConfigError(
                "give either a workload file or a trace", hint="headway simulate --help"
            )
        if self.journal and self.seeds > 1:
            raise ConfigError(
                "a journal records one run, not several seeds", hint="omit --seeds or --journal"
            )
        if self.trace is not None and (self.html or self.seeds > 1):
            raise ConfigError(
                "a trace is simulated once and without a report",
                where=str(self.trace),
                hint="omit --html and --seeds",
            )
        if self.trace is None and self.given:
            raise ConfigError(
                f"--{next(iter(self.given))} needs --trace",
                hint="omit it: the nodes of a workload are in its file",
            )


def run_simulation(
    options: SimulationOptions, progress: Progress = lambda done, total: None
) -> list[list[Result]]:
    """Simulate every policy on every seed; return one list of results per policy."""
    if options.trace is not None:
        cluster = dict(options.given)
        scenario = read_trace(options.trace, cluster.pop("format", "philly"), Cluster(**cluster))
        policies = options.policies or ("fifo", "tiresias")
        results = run_all(scenario, policies, journal=options.journal, progress=progress)
        return [[result] for result in results]
    assert options.workload is not None  # noqa: S101 - or there is a trace
    workload = read_workload(options.workload)
    policies = options.policies or ("fair", "headway")
    if not options.backoff:
        policies = [without_backoff(policy) for policy in policies]
    compared = compare(
        workload,
        policies,
        [workload.seed + i for i in range(options.seeds)],
        path=options.workload,
        journal=options.journal,
        progress=progress,
    )
    if options.html:
        write_report(options.html, workload, policies, compared, options.workload)
    return compared


def journals(options: SimulationOptions, results: Sequence[Sequence[Result]]) -> list[Path]:
    """The journals that the simulation wrote, in the order of the policies."""
    policies = [r[0].policy for r in results]
    return [journal_name(options.journal, p, policies) for p in policies if options.journal]


def without_backoff(policy: str) -> str:
    """Switch off the back-off of every FlowCon in a policy's name.

    >>> without_backoff("flowcon"), without_backoff("flowcon:paper"), without_backoff("fair")
    ('flowcon:backoff=off', 'flowcon:paper,backoff=off', 'fair')
    """
    return "+".join(
        f"{part}{',' if ':' in part else ':'}backoff=off" if part.startswith("flowcon") else part
        for part in policy.split("+")
    )
