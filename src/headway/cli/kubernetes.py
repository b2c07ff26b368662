"""`headway kubernetes manifests`."""

from pathlib import Path
from typing import Annotated

import typer

from headway import __version__

app = typer.Typer(help="Run Headway on a Kubernetes cluster.", no_args_is_help=True)


@app.callback()
def _root() -> None:
    """Run Headway on a Kubernetes cluster."""


@app.command()
def manifests(
    namespace: Annotated[str, typer.Option(help="Where the operator runs.")] = "headway",
    image: Annotated[str, typer.Option(help="The operator's image.")] = f"headway:{__version__}",
    replicas: Annotated[
        int, typer.Option(min=1, help="Of the operator: one leads, the others wait.")
    ] = 2,
    out: Annotated[
        Path | None,
        typer.Option(help="Write a Kustomize base into this folder.", show_default="print"),
    ] = None,
    helm: Annotated[bool, typer.Option("--helm", help="Write a Helm chart instead.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="JSON: a List, or the files that were written.")
    ] = False,
) -> None:
    """Print what a cluster needs: the custom resource, the operator, and the rights it has.

    Nothing is sent to a cluster: look at it, then apply it. With --out it is a Kustomize base, with
    --helm a chart; both are the same objects.

        headway kubernetes manifests --image registry.example/headway:1 | kubectl apply -f -
        headway kubernetes manifests --out base && kubectl apply -k base
        headway kubernetes manifests --helm --out chart && helm install headway chart
    """
    from headway.cli.output import as_json as to_text
    from headway.deploy import render
    from headway.deploy.objects import Values
    from headway.errors import ConfigError

    values = render.check(Values(namespace=namespace, image=image, replicas=replicas))
    if helm and out is None:
        raise ConfigError("a chart is several files", where="--helm", hint="add --out FOLDER")
    if out is None:
        found = render.stream(values)
        whole = {"apiVersion": "v1", "kind": "List", "items": found}
        typer.echo(to_text(whole) if as_json else render.text(found), nl=as_json)
        return
    made = render.helm(values) if helm else render.kustomize(values)
    written = [str(path) for path in render.write(made, out)]
    typer.echo(to_text(written) if as_json else "\n".join(written))
