"""`headway move`, `scale`, `pause`, `resume` and `cancel`: requests to a run in progress."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.job_names import UnfinishedJob
from headway.cli.options import ActiveRun, AsJson, Backend, Data, JobsNamespace, Kubeconfig
from headway.cli.terminal import echo, print_json

if TYPE_CHECKING:
    from headway.core.model.snapshot import Request
    from headway.runtime.api_address import Address
    from headway.runtime.run_directory import RunDirectory

ON_A_CLUSTER = {
    "move": "kubectl cordon NODE lets the jobs of a node move",
    "scale": "kubectl scale tj {job} --replicas N",
    "pause": "headway pause {job} --backend kubernetes",
    "resume": "headway resume {job} --backend kubernetes",
    "cancel": "kubectl delete tj {job}",
}
"""Commands for jobs of an operator, which the commands of this module do not reach."""
HOW_TO_SAVE = (
    "  remedy: let the script save checkpoints, and set checkpoint: {mode: sdk} or {mode: sigterm} "
    "in its job file"
)


def move(
    job: UnfinishedJob,
    to: Annotated[str, typer.Option(help="The target node.", show_default=False)],
    run: ActiveRun = "",
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Move JOB to another node of a run in progress: checkpoint, stop, start there.

    headway move vae --to node-1
    """
    _request(job, "move", run, data, as_json, to=to)


def scale(
    job: UnfinishedJob,
    size: Annotated[
        str,
        typer.Argument(
            metavar="TASK=N", help="Task, and its number of replicas.", show_default=False
        ),
    ],
    run: ActiveRun = "",
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Change the number of replicas of a task of JOB, between its minReplicas and maxReplicas.

    A task with `elastic: independent` starts or stops single replicas. Any other job saves a
    checkpoint, stops, and starts in its new size. It also starts in this size later.

        headway scale resnet worker=3
    """
    from headway.errors import ConfigError

    task, _, count = size.partition("=")
    if not task or not count.isdecimal() or int(count) < 1:
        raise ConfigError(
            f"not a task and a number of replicas: {size!r}", hint=f"headway scale {job} worker=3"
        )
    _request(job, "scale", run, data, as_json, task=task, count=int(count))


def pause(
    job: UnfinishedJob,
    run: ActiveRun = "",
    backend: Backend = "",
    namespace: JobsNamespace = "",
    kubeconfig: Kubeconfig = "",
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Checkpoint and stop JOB; it releases its resources until `headway resume`.

    With `--backend kubernetes`, JOB is a TrainingJob of a cluster, or NAMESPACE/NAME; this sets its
    `spec.suspend`.

        headway pause vae
        headway pause vae --backend kubernetes --namespace team
    """
    if backend:
        from headway.cli.by_cluster import suspend

        suspend(job, namespace, kubeconfig, suspended=True, as_json=as_json)
    else:
        _request(job, "pause", run, data, as_json)


def resume(
    job: UnfinishedJob,
    run: ActiveRun = "",
    backend: Backend = "",
    namespace: JobsNamespace = "",
    kubeconfig: Kubeconfig = "",
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Continue a paused JOB from its checkpoint.

    With `--backend kubernetes`, JOB is a TrainingJob of a cluster, or NAMESPACE/NAME; this sets its
    `spec.suspend`.

        headway resume vae
        headway resume vae --backend kubernetes --namespace team
    """
    if backend:
        from headway.cli.by_cluster import suspend

        suspend(job, namespace, kubeconfig, suspended=False, as_json=as_json)
    else:
        _request(job, "resume", run, data, as_json)


def cancel(
    job: UnfinishedJob, run: ActiveRun = "", data: Data = None, as_json: AsJson = False
) -> None:
    """Stop JOB for good. The other jobs of the run continue.

    headway cancel vae
    """
    _request(job, "cancel", run, data, as_json)


def _request(
    job: str,
    wish: str,
    run: str,
    data: Data,
    as_json: bool,
    *,
    to: str | None = None,
    task: str = "",
    count: int | None = None,
) -> None:
    from headway.client_connection import has_api
    from headway.core.model.snapshot import Request
    from headway.core.model.units import JobId, NodeId
    from headway.runtime.api_address import api_address

    node = NodeId(to) if to else None
    request = Request(job=JobId(job), wish=wish, to=node, task=task, count=count)
    if not run and (server := api_address(data)):
        why = _ask_server(server, request)
    elif has_api(folder := _find(job, wish, run, data)):
        why = _ask_server(folder.path, request)
    else:
        from headway.runtime.request_client import ask

        why = ask(folder, request)
    said = f"{job}: {wish} started; see headway explain {job}"
    if why:
        said = f"{job}: cannot {wish}: {why}"
    if as_json:
        print_json({"job": job, "wish": wish, "done": not why, "why": why, "said": said})
    else:
        echo(said)
        if "cannot save checkpoints" in why:
            echo(HOW_TO_SAVE, err=True)
    if why:
        raise typer.Exit(1)


def _find(job: str, wish: str, run: str, data: Data) -> "RunDirectory":
    """The run of a job on this machine."""
    from headway.errors import ConfigError, UnknownName
    from headway.runtime.run_directory import data_folder
    from headway.runtime.run_status import find_job

    try:
        return find_job(data_folder(data), job, run)
    except (UnknownName, ConfigError) as error:
        if os.environ.get("KUBECONFIG") or (Path.home() / ".kube" / "config").exists():
            there = ON_A_CLUSTER[wish].format(job=job)
            error.hint += f"; if it is a job of an operator on Kubernetes: {there}"
        raise


def _ask_server(server: "Address", request: "Request") -> str:
    """Send a request to a server. Return why it was refused; "": it was accepted."""
    from headway.client import Client
    from headway.errors import HeadwayError

    bodies: dict[str, dict[str, object]] = {
        "move": {"to": request.to},
        "scale": {"task": request.task, "count": request.count},
    }
    try:
        with Client(server) as client:
            client.request(request.job, request.wish, bodies.get(request.wish))
    except HeadwayError as error:
        if error.code != "refused":
            raise
        return error.message
    return ""
