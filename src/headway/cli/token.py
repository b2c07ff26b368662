"""`headway token`: who may use the API over TCP."""

from pathlib import Path
from typing import Annotated

import typer

from headway.cli.options import AsJson, Data
from headway.cli.terminal import echo, print_json

app = typer.Typer(
    help="Tokens of clients that reach `headway serve --listen` over the network.",
    no_args_is_help=True,
)
Name = Annotated[str, typer.Argument(help="Name of the token, such as laptop.", show_default=False)]


@app.command()
def create(
    name: Name,
    file: Annotated[
        Path | None,
        typer.Option(help="Write the token to this new file (mode 0600).", show_default=False),
    ] = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Create a token and print it. Only its hash is stored, so that it is shown once.

    A client has it in a file that only its user can read, and HEADWAY_TOKEN_FILE names the file.
    Anyone with a token can run commands as the user of the server.

        headway token create laptop --file laptop.token
    """
    import os

    from headway.runtime.run_directory import data_folder
    from headway.server.tokens import Tokens

    if file is not None:
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        made = Tokens(data_folder(data)).create(name)
    except BaseException:
        if file is not None:
            file.unlink()
        raise
    if file is not None:
        file.write_text(f"{made}\n", encoding="ascii")
    if as_json:
        print_json({"name": name} | ({"file": str(file)} if file else {"token": made}))
    else:
        echo(f"{name}: written to {file}" if file else made)


@app.command("list")
def list_(data: Data = None, as_json: AsJson = False) -> None:
    """List the names of all tokens.

    headway token list
    """
    from headway.runtime.run_directory import data_folder
    from headway.server.tokens import Tokens

    found = Tokens(data_folder(data)).list()
    if as_json:
        print_json([{"name": token.name, "created": token.created} for token in found])
    elif not found:
        echo("there are no tokens; headway token create NAME")
    for token in () if as_json else found:
        echo(f"{token.name}  created {_day(token.created)}")


def _day(time: float) -> str:
    from time import localtime, strftime

    return strftime("%Y-%m-%d %H:%M", localtime(time))


@app.command()
def revoke(name: Name, data: Data = None, as_json: AsJson = False) -> None:
    """Make a token invalid, also for a server that runs.

    headway token revoke laptop
    """
    from headway.runtime.run_directory import data_folder
    from headway.server.tokens import Tokens

    Tokens(data_folder(data)).revoke(name)
    if as_json:
        print_json({"name": name, "revoked": True})
    else:
        echo(f"{name}: revoked")
