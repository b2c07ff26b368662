"""`headway serve` and `submit`: a queue that is always there."""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli.options import AsJson, Data, Policy, Steps
from headway.cli.run import COMMAND, program
from headway.cli.terminal import continuing, echo, print_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headway.backend.local.remote_control import RemoteControl
    from headway.server.network import Network
    from headway.spec.quotas import Quotas


def serve(
    policy: Policy = "headway",
    data: Data = None,
    system: Annotated[
        bool, typer.Option("--system", help="For all users of this machine; started by root.")
    ] = False,
    socket: Annotated[
        Path | None,
        typer.Option(help="With --system: its socket.", show_default="/run/headway/headway.sock"),
    ] = None,
    user: Annotated[
        str, typer.Option(help="With --system: the user that the scheduler runs as.")
    ] = "headway",
    allow_user: Annotated[
        list[str] | None,
        typer.Option(help="With --system: a system user that jobs may run as; may be repeated."),
    ] = None,
    quotas: Annotated[
        Path | None,
        typer.Option(help="With --system: YAML file with the quotas of users.", show_default=False),
    ] = None,
    listen: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT",
            help="Also take requests over TCP, from clients with a token (`headway token`).",
            show_default=False,
        ),
    ] = "",
    tls_cert: Annotated[
        Path | None, typer.Option(help="With --listen: PEM file.", show_default=False)
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(help="With --listen: PEM file.", show_default=False)
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="With --listen: on a network, but without TLS.")
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="With --listen: a name by which clients know this machine."),
    ] = None,
) -> None:
    """Take jobs at any time (`headway submit`) and run them on this machine, until Ctrl-C.

    The jobs continue when the server ends, and the next one manages them again. One server for
    each data directory.

        nohup headway serve 2> serve.log &
        headway submit -- python train.py
        sudo headway serve --system
        headway serve --listen :8443 --tls-cert cert.pem --tls-key key.pem
    """
    from headway.errors import ConfigError
    from headway.runtime.run_directory import data_folder

    if not listen and (tls_cert or tls_key or insecure or allow_host):
        raise ConfigError("TLS, --insecure and --allow-host are for --listen HOST:PORT")
    if system and listen:
        raise ConfigError(
            "a server for all users of a machine has no API over TCP",
            hint="each user can have a server of its own: headway serve --listen",
        )
    if not system:
        network = _network(listen, tls_cert, tls_key, insecure, allow_host) if listen else None
        _serve(data_folder(data), policy, network=network)
        return
    from headway.runtime.api_address import DATA, SOCKET
    from headway.server.system import SystemOptions, serve_system
    from headway.spec.quotas import Quotas, read_quotas

    options = SystemOptions(
        data=data.resolve() if data else DATA,
        socket=socket.absolute() if socket else SOCKET,
        user=user,
        allowed=tuple(allow_user or ()),
    )
    path = quotas.absolute() if quotas else None

    def scheduler(where: Path, by: "RemoteControl") -> None:  # which is not root
        _serve(where, policy, by, (options.socket, read_quotas(path) if path else Quotas()))

    raise typer.Exit(serve_system(options, scheduler))


def _network(
    listen: str, cert: Path | None, key: Path | None, insecure: bool, names: list[str] | None
) -> "Network":
    from headway.server.network import Network

    return Network.of(listen, cert, key, insecure=insecure, names=names or ())


def _serve(
    data: Path,
    policy: str,
    control: "RemoteControl | None" = None,
    public: "tuple[Path | None, Quotas | None]" = (None, None),
    network: "Network | None" = None,
) -> None:
    """`control` and `public`, its socket and quotas: of a server of all users."""
    from headway.runtime.data_lock import lock_data

    lock = lock_data(data)  # before the imports that take a second
    from headway.cli.display import Display
    from headway.runtime.server import start_server
    from headway.server.listener import Listener

    server = start_server(data, policy, control, public[1], lock)
    listener = Listener(server, *public, network)
    if listener.url:
        _say_where(listener.url, data)
    with Display(server.run) as display, listener:
        left = server.go(display.show, display.report_end)
    if left:
        jobs, them = continuing(left)
        echo(f"{jobs}; headway serve manages {them} again", err=True)


def _say_where(url: str, data: Path) -> None:
    from headway.server.tokens import Tokens

    echo(f"clients with a token: {url}", err=True)
    if not Tokens(data).list():
        echo("there is no token yet: headway token create NAME", err=True)


def _refuse_of_a_file(options: "Mapping[str, object]") -> None:
    """Raise if an option is given that only a command has."""
    from headway.errors import ConfigError

    fields = {"steps": "totalSteps", "name": "name", "retries": "backoffLimit"}
    for option in (name for name, given in options.items() if given):
        hint = f"set {fields[option]} in the file"
        raise ConfigError(f"--{option} needs a command after --", hint=hint)


def submit(
    ctx: typer.Context,
    workload: Annotated[
        Path | None, typer.Argument(help="YAML file, kind: Workload.", show_default=False)
    ] = None,
    name: Annotated[str, typer.Option(help="Name of the job.", show_default="the script's")] = "",
    retries: Annotated[
        int, typer.Option(min=0, help="How often a command that fails is started again.")
    ] = 0,
    steps: Steps = None,
    env: Annotated[
        list[str] | None,
        typer.Option(help="A variable to pass on, NAME or NAME=VALUE; may be repeated."),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(help="Submitting again with the same key adds nothing.", show_default=False),
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Option(
            help="Where the job runs.", show_default="the current one, or that of the file"
        ),
    ] = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Submit one command, or the jobs of WORKLOAD, to the server.

    Prints the id of each job.

    The job runs in the current directory, with PATH, HOME, USER, SHELL, LANG, `LC_*`, VIRTUAL_ENV,
    PYTHONPATH, LD_LIBRARY_PATH and `CONDA_*` of this shell and what `--env` names. It is stored
    when the command returns. A server on another machine (HEADWAY_SERVER) gets only what `--env`
    names; the directory must exist there.

        headway submit -- python train.py --epochs 10
        headway submit --name big --env DATASET -- python train.py
        headway submit workloads/five-jobs.yaml
    """
    from headway.client import Client
    from headway.errors import ConfigError
    from headway.runtime.api_address import Remote, api_address
    from headway.runtime.user_environment import environment
    from headway.spec.single_job import single_job

    command = ctx.meta.get(COMMAND, [])
    if (workload is None) == (not command):
        count = "only one: " if command else ""
        raise ConfigError(
            f"give {count}a workload, or a command after --", hint="headway submit --help"
        )
    if workload is not None:
        _refuse_of_a_file({"steps": steps, "name": name, "retries": retries})
    client = Client.of(data, waiting=_say_starting)
    server = api_address(data)
    if workload is not None:
        made, home = _jobs_of(workload, inline=server is not None), workload.absolute().parent
    else:
        made, home = [single_job(command, name, retries, steps)], Path.cwd()
    if command and not isinstance(server, Remote):
        shown = program(command[0])
        if not as_json:
            echo(shown, err=True)
    if directory and not isinstance(server, Remote):
        directory = directory.absolute()
        if not directory.is_dir():
            raise ConfigError("this directory does not exist", where=f"--directory {directory}")
    passed = environment(env or (), own=isinstance(server, Remote))
    with client:
        found = client.submit(made, directory=directory or home, env=passed, key=key)
    if as_json:
        print_json({"jobs": found})
    else:
        echo("\n".join(found))


@cache
def _say_starting() -> None:
    echo("waiting for the server, which is starting", err=True)


def _jobs_of(workload: Path, *, inline: bool) -> list[dict[str, Any]]:
    """`inline`: with the specs of their manifests."""
    from headway.runtime.new_submission import entries, without_files
    from headway.spec.load import read_workload

    listed = read_workload(workload)
    if "nodes" in listed.model_fields_set:
        echo("the nodes of the workload are ignored: the server has its own", err=True)
    made = entries(listed, workload)
    return without_files(made, str(workload.absolute().parent)) if inline else made
