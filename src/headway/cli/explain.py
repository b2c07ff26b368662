"""`headway explain`, `report` and `replay`: what happened in a run."""

from pathlib import Path
from typing import Annotated

import typer

from headway.cli.job_names import KnownJob
from headway.cli.options import ActiveRun, Backend, Data, Home, JobsNamespace, Kubeconfig
from headway.cli.terminal import echo, print_json


def explain(
    job: KnownJob,
    run: ActiveRun = "",
    backend: Backend = "",
    namespace: JobsNamespace = "",
    kubeconfig: Kubeconfig = "",
    home: Home = "headway",
    data: Data = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One object: what is `known`, and the `events`.")
    ] = False,
) -> None:
    """Show what is known of JOB, and the decisions about it with their reasons.

    Shows its metric, progress, size, guarantee and ETA, and the reason for its present share.

    RUN can also be the journal of a simulation.

    With `--backend kubernetes`, JOB is a TrainingJob of a cluster, or NAMESPACE/NAME; pod/NAME is
    an adopted pod. Size, guarantee and ETA need the right to read config maps of the operator.

        headway explain vae
        headway explain vae --backend kubernetes --namespace team
        headway simulate w.yaml --journal j.jsonl && headway explain vae --run j.jsonl
    """
    if backend:
        from headway.cli import by_cluster

        by_cluster.explain(job, namespace, kubeconfig, home, as_json=as_json)
        return
    from headway.cli.output import show_story
    from headway.errors import UnknownName
    from headway.report.explain import explain_job
    from headway.runtime.api_address import api_address
    from headway.runtime.replay import find_journal
    from headway.runtime.run_directory import data_folder
    from headway.runtime.run_status import find_job

    if not run and (server := api_address(data)):
        from headway.cli import by_api

        by_api.explain(server, job, as_json=as_json)
        return
    where = data_folder(data)
    try:
        path = find_journal(run, where) if run else find_job(where, job).journal
    except UnknownName as unknown:  # of a run on a cluster only the journal knows the jobs
        if run:
            raise
        try:
            found = explain_job(find_journal("latest", where), job)
        except UnknownName:
            raise unknown from None
    else:
        found = explain_job(path, job)
    if as_json:
        print_json(found.plain())
    else:
        show_story(found)


def report(
    run: Annotated[
        str, typer.Argument(help="The run: its name, its directory, or `latest`.")
    ] = "latest",
    backend: Backend = "",
    namespace: JobsNamespace = "",
    kubeconfig: Kubeconfig = "",
    html: Annotated[
        Path | None,
        typer.Option(help="Kubernetes: write a page with charts.", show_default="none"),
    ] = None,
    data: Data = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the run's result.")] = False,
) -> None:
    """Print the result of RUN, and write its report page again.

    With `--backend kubernetes`: the jobs of a namespace, and the figures of those that have ended.

        headway report latest
        headway report --backend kubernetes --namespace team --html report.html
    """
    if backend:
        from headway.cli import by_cluster

        by_cluster.report(namespace, kubeconfig, html, as_json=as_json)
        return
    from headway.cli.output import show_outcomes
    from headway.cli.result_table import show_results
    from headway.report.run_page import describe_failures, read_json, read_result, write_run
    from headway.runtime.run_directory import RunDirectory, data_folder

    folder = RunDirectory.find(data_folder(data), run)
    result = read_result(folder)
    page = write_run(folder)
    if as_json:
        print_json([read_json(folder)])
        return
    show_results([[result]])
    show_outcomes(describe_failures(folder))
    echo(f"report: {page}")


def replay(
    journal: Annotated[
        str,
        typer.Argument(
            help="A journal.jsonl, or a run: its name, its directory, or `latest`.",
            show_default=False,
        ),
    ],
    policy: Annotated[
        str,
        typer.Option("--policy", "-p", help="Decide by this policy.", show_default="the journal's"),
    ] = "",
    reasons: Annotated[
        bool, typer.Option("--reasons", help="Report decisions that differ only in their reason.")
    ] = False,
    data: Data = None,
    as_json: Annotated[bool, typer.Option("--json", help="One object per difference.")] = False,
) -> None:
    """Decide every cycle of JOURNAL again, and list the differences.

    With the policy that wrote the journal there must be none (exit code 1 otherwise). With another
    policy, the differences show what that policy would have done.

        headway replay latest
        headway simulate w.yaml --policy headway --journal j.jsonl && headway replay j.jsonl
    """
    from headway.cli.output import show_differences
    from headway.runtime.replay import find_journal, replay_journal
    from headway.runtime.run_directory import data_folder

    found = replay_journal(find_journal(journal, data_folder(data)), policy, reasons=reasons)
    if as_json:
        print_json([d.plain() for d in found.differences])
    else:
        show_differences(found.cycles, found.differences, found.policy.removeprefix("@"))
    if found.differences and found.same_policy:
        raise typer.Exit(1)
