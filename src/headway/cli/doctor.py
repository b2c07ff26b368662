"""`headway doctor`."""

from headway.cli.options import AsJson, Data
from headway.cli.terminal import print_json


def doctor(
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Show what Headway finds on this machine, what is missing, and what to do about it.

    headway doctor
    """
    from rich.markup import escape

    from headway.cli.output import SafeConsole, plain_table
    from headway.runtime.doctor import examine
    from headway.runtime.run_directory import data_folder

    found = list(examine(data_folder(data)))
    if as_json:
        print_json([finding.plain() for finding in found])
        return
    table = plain_table("part", "state", no_wrap=True)
    table.add_column("found, and what to do", overflow="fold")
    for finding in found:
        table.add_row(*map(escape, (finding.what, finding.state, finding.found)))
        if finding.hint:
            table.add_row("", "", f"[dim]→ {escape(finding.hint)}[/dim]")
    SafeConsole().print(table, highlight=False)
