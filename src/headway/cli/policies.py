"""`headway policies`."""

from dataclasses import fields
from typing import Annotated, Any

import typer


def policies(
    as_json: Annotated[bool, typer.Option("--json", help="One object a policy.")] = False,
) -> None:
    """List the policies, what each decides and its settings.

    headway policies
    headway simulate w.yaml --policy flowcon:paper,threshold=0.1,interval=30
    """
    from headway.cli.render import as_json as to_text
    from headway.policy.registry import POLICIES, Entry

    def settings(entry: Entry) -> dict[str, Any]:
        made: Any = entry.make()
        known = (f.name for f in fields(made))
        return {name: getattr(made, name) for name in known if name not in ("name", "listens")}

    if as_json:
        listed = [
            {
                "name": name,
                "level": entry.level,
                "about": entry.about,
                "modes": ["paper"] if entry.paper else [],
                "settings": settings(entry),
            }
            for name, entry in POLICIES.items()
        ]
        typer.echo(to_text(listed))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table()
    for column in ("policy", "decides", "about", "settings"):
        table.add_column(column, overflow="fold")
    for name, entry in POLICIES.items():
        shown = [f"{k}={v}" for k, v in settings(entry).items()]
        mode = ["paper (its paper's own mode)"] if entry.paper else []
        table.add_row(name, entry.level, entry.about, "\n".join(mode + shown))
    Console().print(table)
