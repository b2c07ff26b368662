"""`headway simulate`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from headway.runtime.result import Result


def simulate(
    workload: Annotated[
        Path | None,
        typer.Argument(help="YAML file, kind: Workload or TrainingJob.", show_default=False),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            "-p",
            help="Once for each policy to compare; the first is the measure for the others. "
            "Settings follow a colon: flowcon:paper,threshold=0.1",
            show_default="fair, headway; of a trace: fifo, tiresias",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds; same seed, same run.")] = 1,
    no_backoff: Annotated[
        bool, typer.Option("--no-backoff", help="FlowCon keeps its interval when all converged.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option(help="Write a page with pictures of the first seed.")
    ] = None,
    journal: Annotated[
        Path | None,
        typer.Option(
            help="Write every cycle, one JSON line each (one seed only). Of several policies: a "
            "file each, NAME-POLICY."
        ),
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(help="Instead of WORKLOAD: jobs of another cluster, from a file.")
    ] = None,
    form: Annotated[
        str | None,
        typer.Option("--format", help="Of the trace: philly, itp or swf.", show_default="philly"),
    ] = None,
    nodes: Annotated[
        int | None,
        typer.Option(min=1, help="Nodes that a trace runs on.", show_default="128"),
    ] = None,
    devices: Annotated[
        int | None,
        typer.Option(min=1, help="GPUs (swf: cores) of each node of a trace.", show_default="4"),
    ] = None,
    first: Annotated[
        int | None, typer.Option(min=1, help="Only so many jobs of a trace.", show_default="all")
    ] = None,
    shortest: Annotated[
        float | None,
        typer.Option(
            min=0, help="Leave jobs of a trace out that took less, in seconds.", show_default="0"
        ),
    ] = None,
    largest: Annotated[
        int | None,
        typer.Option(min=1, help="Leave jobs out that need more devices.", show_default="none"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One object a policy.")] = False,
) -> None:
    """Run WORKLOAD once per policy and seed, and print how long the jobs took.

    Needs no container and no cluster: policies and loop are the very ones that run for real;
    only the backend is simulated.

        headway simulate workloads/three-jobs.yaml --policy fair --policy headway --html out.html

        headway simulate --trace philly.csv --format philly --first 5000 --shortest 60 --largest 32
    """
    from headway.errors import ConfigError

    if (workload is None) == (trace is None):
        raise ConfigError("give a workload file or a trace", hint="headway simulate --help")
    if journal and seeds > 1:
        raise ConfigError("a journal is of one run", hint="leave out --seeds, or --journal")
    of_trace = {"format": form, "nodes": nodes, "devices": devices, "first": first,
                "shortest": shortest, "largest": largest}  # fmt: skip
    given = {k: v for k, v in of_trace.items() if v is not None}
    if trace is not None:
        if html or seeds > 1:
            raise ConfigError("a trace is run once, without pictures", where=str(trace))
        _of_trace(trace, given, policy or ["fifo", "tiresias"], journal, as_json=as_json)
    elif given:
        raise ConfigError(
            f"--{next(iter(given))} is for a trace",
            hint="leave it out: the nodes of a workload are in its file; or give --trace",
        )
    elif workload is not None:
        named = policy or ["fair", "headway"]
        policies = [_without_backoff(p) if no_backoff else p for p in named]
        _of_workload(workload, policies, seeds, html, journal, as_json=as_json)


def _of_workload(
    workload: Path,
    policies: list[str],
    seeds: int,
    html: Path | None,
    journal: Path | None,
    *,
    as_json: bool,
) -> None:
    from headway.cli.progress_bar import shown
    from headway.sim.compare import compare
    from headway.spec.load import read_workload

    read = read_workload(workload)
    chosen = [read.seed + i for i in range(seeds)]
    with shown("simulating", quiet=as_json) as progress:
        results = compare(read, policies, chosen, path=workload, journal=journal, progress=progress)
    if html:
        from headway.report.comparison import write_report

        write_report(html, read, policies, results, path=workload)
    _show(results, journal, as_json=as_json)
    if html and not as_json:
        typer.echo(f"pictures: {html}")


def _of_trace(
    trace: Path, given: dict[str, Any], policies: list[str], journal: Path | None, *, as_json: bool
) -> None:
    from headway.cli.progress_bar import shown
    from headway.sim.compare import run_all
    from headway.sim.trace_import import Cluster, read_trace

    form = given.pop("format", "philly")
    scenario = read_trace(trace, form, Cluster(**given))
    with shown("simulating", quiet=as_json) as progress:
        found = run_all(scenario, policies, journal=journal, progress=progress)
    _show([[result] for result in found], journal, as_json=as_json)


def _show(results: "list[list[Result]]", journal: Path | None, *, as_json: bool) -> None:
    from headway.cli.output import as_json as to_text
    from headway.cli.output import show_results
    from headway.runtime.result import to_json
    from headway.sim.compare import journal_name

    if as_json:
        typer.echo(to_text([to_json(r) for r in results]))
        return
    show_results(results)
    policies = [r[0].policy for r in results]
    if journal:
        written = [str(journal_name(journal, p, policies)) for p in policies]
        typer.echo(f"journal{'s' * (len(written) > 1)}: {', '.join(written)}")


def _without_backoff(policy: str) -> str:
    """Every FlowCon in it keeps its interval.

    >>> _without_backoff("flowcon"), _without_backoff("flowcon:paper"), _without_backoff("fair")
    ('flowcon:backoff=off', 'flowcon:paper,backoff=off', 'fair')
    """
    parts = policy.split("+")
    changed = [
        f"{p}{',' if ':' in p else ':'}backoff=off" if p.startswith("flowcon") else p for p in parts
    ]
    return "+".join(changed)
