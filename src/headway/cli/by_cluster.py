"""Commands about jobs on a Kubernetes cluster, from any machine that can reach its API server."""

from pathlib import Path

from headway.cli.job_tables import show_jobs
from headway.cli.output import show_story
from headway.cli.result_table import show_results
from headway.cli.terminal import echo, print_json
from headway.errors import ConfigError, shown
from headway.runtime.targets import api


def explain(job: str, namespace: str, kubeconfig: str, home: str, *, as_json: bool) -> None:
    """`job` is NAME or NAMESPACE/NAME; pod/NAME is an adopted pod."""
    there = api(kubeconfig)  # first: without the client it says what to install
    from headway.report.cluster_job import explain_on_cluster

    space, name = _split(job)
    found, missing = explain_on_cluster(there, space or namespace or there.namespace, name, home)
    if as_json:
        print_json(found.plain())
    else:
        show_story(found)
    if missing:
        echo(missing, err=True)


def suspend(job: str, namespace: str, kubeconfig: str, *, suspended: bool, as_json: bool) -> None:
    """Set `spec.suspend` of the TrainingJob NAME or NAMESPACE/NAME."""
    there = api(kubeconfig)
    from headway.backend.kubernetes.client.api import jobs_path
    from headway.report.cluster_job import POD, find_job

    space, name = _split(job)
    space = space or namespace or there.namespace
    if name.startswith(POD):
        raise ConfigError(
            f"{name} cannot be paused: its controller would replace it",
            where=f"namespace {space}",
            hint="set spec.suspend of the Job or JobSet that owns it",
        )
    changes = bool(find_job(there, space, name)["spec"].get("suspend")) != suspended
    if changes:
        there.patch(f"{jobs_path(space)}/{name}", {"spec": {"suspend": suspended}})
    field = f"spec.suspend is {'now' if changes else 'already'} {str(suspended).lower()}"
    if as_json:
        print_json({"job": f"{space}/{name}", "suspended": suspended, "changed": changes})
    else:
        echo(f"{name}: {field}; see headway explain {space}/{name} --backend kubernetes")


def _split(job: str) -> tuple[str, str]:
    """Return the namespace, if one is given, and the name."""
    *first, name = job.split("/")
    if first[-1:] == ["pod"]:
        name = f"{first.pop()}/{name}"
    if len(first) > 1:
        raise ConfigError(f"{shown(job)} is not the name of a job", hint="NAME or NAMESPACE/NAME")
    return "".join(first), name


def report(namespace: str, kubeconfig: str, html: Path | None, *, as_json: bool) -> None:
    there = api(kubeconfig)
    from headway.report.cluster_report import read, write

    found = read(there, namespace or there.namespace)
    if html:
        write(found, html)
    if as_json:
        print_json(found.plain())
        return
    show_jobs(found.jobs, several=False)
    if found.result:
        echo("")
        show_results([[found.result]])
    if html:
        echo(f"report: {html}")
