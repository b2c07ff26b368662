"""`headway drain` and `undrain`: take a node out of service, and back."""

from typing import Annotated

import typer

from headway.cli.options import ActiveRun, AsJson, Data
from headway.cli.terminal import echo, print_json

Node = Annotated[str, typer.Argument(help="The name of the node.", show_default=False)]


def drain(node: Node, run: ActiveRun = "", data: Data = None, as_json: AsJson = False) -> None:
    """Start no replicas on NODE, and move away the jobs that can save a checkpoint.

    They are moved if another node has room; the others run to their end. The node stays drained
    when Headway is started again.

        headway drain node-1
        headway drain node-1 --run latest
    """
    _request(node, "drain", run, data, as_json=as_json)


def undrain(node: Node, run: ActiveRun = "", data: Data = None, as_json: AsJson = False) -> None:
    """Start replicas on NODE again.

    headway undrain node-1
    """
    _request(node, "undrain", run, data, as_json=as_json)


def _request(node: str, wish: str, run: str, data: Data, *, as_json: bool) -> None:
    from headway.core.model.snapshot import Request
    from headway.core.model.units import JobId, NodeId
    from headway.runtime.api_address import api_address
    from headway.runtime.request_client import ask
    from headway.runtime.run_directory import data_folder
    from headway.runtime.stopping import find_run

    if not run and (server := api_address(data)):
        from headway.cli import by_api

        name = by_api.drain(server, node, wish)
    else:
        folder = find_run(data_folder(data), run)
        ask(folder, Request(job=JobId(""), wish=wish, to=NodeId(node)))
        name = folder.id
    if as_json:
        print_json({"run": name, "node": node, "drained": wish == "drain"})
    elif wish == "drain":
        echo(f"{node}: drained; jobs that can move are moved, the others run to their end")
    else:
        echo(f"{node}: takes jobs again")
