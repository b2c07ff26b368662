"""`headway simulate`."""

from pathlib import Path
from typing import Annotated

import typer


def simulate(
    workload: Annotated[
        Path, typer.Argument(help="YAML file, kind: Workload.", show_default=False)
    ],
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            "-p",
            help="Once for each policy to compare; the first is the measure for the others. "
            "Settings follow a colon: flowcon:paper,threshold=0.1",
            show_default="fair, headway",
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
        Path | None, typer.Option(help="Write every cycle, one JSON line each (one seed only).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One object a policy.")] = False,
) -> None:
    """Run WORKLOAD once per policy and seed, and print how long the jobs took.

    Needs no container and no cluster: policies and loop are the very ones that run for real;
    only the backend is simulated.

        headway simulate workloads/three-jobs.yaml --policy fair --policy headway --html out.html
    """
    from headway.cli.progress import shown
    from headway.cli.render import as_json as to_text
    from headway.cli.render import show_results
    from headway.errors import ConfigError
    from headway.runtime.result import to_json
    from headway.sim.compare import compare
    from headway.spec.reading import read_workload

    if journal and seeds > 1:
        raise ConfigError("a journal is of one run", hint="leave out --seeds, or --journal")
    policies = [_without_backoff(p) if no_backoff else p for p in policy or ["fair", "headway"]]
    read = read_workload(workload)
    chosen = [read.seed + i for i in range(seeds)]
    with shown("simulating", quiet=as_json) as progress:
        results = compare(read, policies, chosen, path=workload, journal=journal, progress=progress)
    if html:
        from headway.study.report import write_report

        write_report(html, read, policies, results, path=workload)
    if as_json:
        typer.echo(to_text([to_json(r) for r in results]))
        return
    show_results(results)
    if html:
        typer.echo(f"pictures: {html}")


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
