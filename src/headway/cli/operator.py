"""`headway operator`."""

from typing import Annotated

import typer

from headway.cli.options import Data, Policy


def operator(
    policy: Policy = "headway",
    namespace: Annotated[
        str, typer.Option(help="Manage the jobs of this namespace only.", show_default="all")
    ] = "",
    home: Annotated[
        str, typer.Option(help="The namespace of the lease.", envvar="POD_NAMESPACE")
    ] = "headway",
    port: Annotated[
        int,
        typer.Option(
            min=0, max=65535, help="Serve /healthz, /readyz and /metrics here.", show_default="none"
        ),
    ] = 0,
    report_port: Annotated[
        int,
        typer.Option(
            min=0, max=65535, help="Pods report here, over HTTPS.", show_default="nowhere"
        ),
    ] = 0,
    agent_namespace: Annotated[
        str, typer.Option(help="The namespace of the node agents.", show_default="none")
    ] = "",
    observe_only: Annotated[
        bool,
        typer.Option(
            "--observe-only",
            envvar="HEADWAY_OBSERVE_ONLY",
            help="Start jobs, but only record all other decisions; restore declared CPU.",
        ),
    ] = False,
    data: Data = None,
    kubeconfig: Annotated[
        str, typer.Option(help="Path of the kubeconfig.", show_default="as kubectl")
    ] = "",
) -> None:
    """Manage the TrainingJobs of a Kubernetes cluster, placing each job as a whole gang.

    Runs in the cluster (`headway kubernetes manifests`) or anywhere with a kubeconfig. If several
    operators run, one is elected leader. Jobs continue when the operator stops.

        headway operator --policy headway
    """
    import logging

    from headway.runtime.run_directory import data_folder
    from headway.runtime.targets import api

    there = api(kubeconfig)  # first: without the client it says what to install
    from headway.runtime.operator import Operator

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    Operator(
        policy,
        data_folder(data),
        namespace,
        home,
        port,
        observe_only=observe_only,
        report_port=report_port,
        agents=agent_namespace,
    ).go(there)
