"""`headway operator`."""

from typing import Annotated

import typer

from headway.cli.run import Data


def operator(
    policy: Annotated[
        str, typer.Option("--policy", "-p", help="See `headway policies`.")
    ] = "headway",
    namespace: Annotated[
        str, typer.Option(help="Only the jobs of this namespace.", show_default="all")
    ] = "",
    home: Annotated[
        str,
        typer.Option(help="The namespace of the lease.", envvar="POD_NAMESPACE"),
    ] = "default",
    data: Data = None,
    kubeconfig: Annotated[
        str, typer.Option(help="How to reach the cluster.", show_default="as kubectl")
    ] = "",
) -> None:
    """Look after the TrainingJobs of a Kubernetes cluster: place them as whole gangs.

    Runs in the cluster (`headway kubernetes manifests`) or anywhere with a kubeconfig. Of several,
    one leads and the others wait. When it stops, the jobs go on.

        headway operator --policy headway
    """
    import logging

    from headway.runtime.operator import Operator
    from headway.runtime.run_directory import data_folder
    from headway.runtime.targets import api

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    found = Operator(policy, data_folder(data), namespace, home)
    found.go(api(kubeconfig))
