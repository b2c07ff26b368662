"""`headway policies`."""

from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from headway.policy.registry import Entry


def policies(
    name: Annotated[
        str | None, typer.Argument(help="Only this one, with its settings.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One object a policy.")] = False,
) -> None:
    """List the policies and what each decides, or the settings of one.

    Settings follow a colon, wherever a policy is named: key=value, with commas between. Policies
    joined by + are a chain.

        headway policies
        headway policies flowcon
        headway simulate w.yaml --policy flowcon:paper,threshold=0.1,interval=30
    """
    from headway.cli.output import as_json as to_text
    from headway.errors import UnknownName
    from headway.policy.registry import POLICIES

    if name is not None and name not in POLICIES:
        raise UnknownName("policy", name, POLICIES)
    chosen = {k: entry for k, entry in POLICIES.items() if name in (None, k)}
    if as_json:
        typer.echo(to_text([_plain(k, entry) for k, entry in chosen.items()]))
    elif name is not None:
        _show_one(_plain(name, chosen[name]))
    else:
        _show_all(chosen)


def _plain(name: str, entry: "Entry") -> dict[str, Any]:
    made: Any = entry.make()
    known = [f.name for f in fields(made) if f.name not in ("name", "listens")]
    return {
        "name": name,
        "level": entry.level,
        "about": entry.about,
        "modes": ["paper"] if entry.paper else [],
        "settings": {k: getattr(made, k) for k in known},
        "meaning": {k: v for k, v in _meanings(type(made)).items() if k in known},
    }


def _meanings(of: type[Any]) -> dict[str, str]:
    from headway.spec.docstrings import docstrings

    found: dict[str, str] = {}
    for cls in reversed(of.__mro__[:-1]):
        found |= docstrings(cls)
    return found


def _show_one(policy: dict[str, Any]) -> None:
    typer.echo(f"{policy['name']}: {policy['about']}")
    if policy["modes"]:
        typer.echo("  paper: as its paper has it")
    for key, value in policy["settings"].items():
        shown = ("off", "on")[value] if isinstance(value, bool) else value
        typer.echo(f"  {key}={shown}{_about(policy['meaning'].get(key, ''))}")


def _about(text: str) -> str:
    """What a setting means, in lines of its own below it."""
    from shutil import get_terminal_size
    from textwrap import fill

    room = min(get_terminal_size().columns, 100)
    return (
        "\n" + fill(text, room, initial_indent=" " * 6, subsequent_indent=" " * 6) if text else ""
    )


def _show_all(chosen: "dict[str, Entry]") -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("policy", "decides", "about"):
        table.add_column(column, overflow="fold")
    for name, entry in chosen.items():
        table.add_row(name, entry.level, entry.about)
    console = Console()
    console.print(table)
    console.print("settings of one: headway policies NAME", style="dim", highlight=False)
