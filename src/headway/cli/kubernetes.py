"""`headway kubernetes`: manifests and clean-up."""

from pathlib import Path
from typing import Annotated

import typer

from headway import __version__
from headway.cli.terminal import echo, print_json
from headway.errors import ConfigError

app = typer.Typer(help="Run Headway on a Kubernetes cluster.", no_args_is_help=True)


@app.command()
def manifests(
    namespace: Annotated[str, typer.Option(help="Namespace of the operator.")] = "headway",
    image: Annotated[str, typer.Option(help="Image of the operator.")] = f"headway:{__version__}",
    replicas: Annotated[
        int, typer.Option(min=1, help="Replicas of the operator: one leader, the others standby.")
    ] = 2,
    policy: Annotated[str, typer.Option(help="Policy that places the jobs.")] = "headway",
    watch_namespace: Annotated[
        str, typer.Option(help="Manage the jobs of this namespace only.", show_default="all")
    ] = "",
    agent_namespace: Annotated[
        str, typer.Option(help='Namespace of the node agents; "": no agents.')
    ] = "headway-agent",
    only_cluster: Annotated[
        bool,
        typer.Option("--only-cluster", help="Print only the objects of the whole cluster."),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Write a Kustomize base into this directory.", show_default="print"),
    ] = None,
    helm: Annotated[bool, typer.Option("--helm", help="Write a Helm chart instead.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON List, or the list of written files.")
    ] = False,
) -> None:
    """Print the manifests of the operator: custom resource, RBAC and Deployment.

    This command does not contact a cluster. With --out it writes a Kustomize base, with --helm a
    chart of the same objects.

        headway kubernetes manifests --image registry.example/headway:1 | kubectl apply -f -
        headway kubernetes manifests --out base && kubectl apply -k base
        headway kubernetes manifests --helm --out chart && helm install headway chart
    """
    from headway.deploy import render
    from headway.policy.registry import build

    build(policy)
    values = render.Values(
        namespace=namespace,
        image=image,
        replicas=replicas,
        policy=policy,
        watch_namespace=watch_namespace,
        agent_namespace=agent_namespace,
    )
    render.check(values)
    listed = render.stream(values, only_cluster=only_cluster)
    if helm and out is None:
        raise ConfigError("--helm writes several files", where="--helm", hint="add --out DIRECTORY")
    if out is not None:
        files = render.chart(values) if helm else render.kustomize(values)
        written = [str(path) for path in render.write(files, out)]
        print_json(written) if as_json else echo("\n".join(written))
    elif as_json:
        print_json({"apiVersion": "v1", "kind": "List", "items": listed})
    else:
        echo(render.text(listed), nl=False)


@app.command()
def cleanup(
    kubeconfig: Annotated[
        str, typer.Option(help="Path of the kubeconfig.", show_default="as kubectl")
    ] = "",
    namespace: Annotated[
        str, typer.Option(help="Only pods of this namespace.", show_default="all")
    ] = "",
) -> None:
    """Undo what Headway has done to running pods: restore their declared CPU requests and limits,
    and remove their finalizers, so that they can be deleted without an operator.

    Run it after the operator was removed. Exit codes that are not recorded yet are lost.

        headway kubernetes cleanup
    """
    from headway.runtime.targets import api

    there = api(kubeconfig)  # first: without the client it says what to install
    from headway.backend.kubernetes.platform.cleanup import remove_finalizers, restore_shares

    restored = restore_shares(there, namespace)
    count = remove_finalizers(there, namespace)
    echo(f"restored the requests and limits of {restored} pods")
    echo(f"removed the finalizers of {count} pods")
