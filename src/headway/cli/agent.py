"""`headway agent`."""

from pathlib import Path
from typing import Annotated

import typer


def agent(
    url: Annotated[
        str, typer.Option(help="Where the operator receives reports.", envvar="HEADWAY_REPORTS_URL")
    ],
    token: Annotated[
        Path, typer.Option(help="File with a token.", envvar="HEADWAY_REPORTS_TOKEN")
    ] = Path("/headway-reports/token"),
    certificate: Annotated[
        Path, typer.Option(help="File with the certificate to trust.", envvar="HEADWAY_REPORTS_CA")
    ] = Path("/headway-reports/ca.crt"),
    logs: Annotated[Path, typer.Option(help="Where the kubelet keeps the logs of pods.")] = Path(
        "/var/log/pods"
    ),
    cgroups: Annotated[str, typer.Option(help="Where cgroups are mounted.")] = "/sys/fs/cgroup",
) -> None:
    """Report loss and usage of the training jobs on a node of a cluster, from logs and cgroups.

    Runs on each node (`headway kubernetes manifests`). The operator tells it which pods to read; it
    has no rights in the cluster.

        headway agent --url https://headway-reports.headway.svc:8443
    """
    import logging
    import signal
    from threading import Event

    from headway.backend.kubernetes.agent.agent import Agent, HttpsClient

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    Agent(HttpsClient(url, token, certificate), logs, cgroups).run(stop)
