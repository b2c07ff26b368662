"""`headway replay`."""

from typing import Annotated

import typer

from headway.cli.options import Data


def replay(
    journal: Annotated[
        str,
        typer.Argument(
            help="A journal.jsonl, or a run: its name, its directory, or `latest`.",
            show_default=False,
        ),
    ],
    policy: Annotated[
        str,
        typer.Option("--policy", "-p", help="Decide by this policy.", show_default="the journal's"),
    ] = "",
    reasons: Annotated[
        bool, typer.Option("--reasons", help="Report decisions that differ only in their reason.")
    ] = False,
    data: Data = None,
    as_json: Annotated[bool, typer.Option("--json", help="One object per difference.")] = False,
) -> None:
    """Decide every cycle of JOURNAL again, and list the differences.

    With the policy that wrote the journal there must be none (exit code 1 otherwise). With another
    policy, the differences show what that policy would have done.

        headway replay latest

        headway simulate w.yaml --policy headway --journal j.jsonl && headway replay j.jsonl
    """
    from headway.cli.output import print_json, show_differences
    from headway.runtime.replay import find_journal, replay_journal
    from headway.runtime.run_directory import data_folder

    found = replay_journal(find_journal(journal, data_folder(data)), policy, reasons=reasons)
    if as_json:
        print_json([d.plain() for d in found.differences])
    else:
        show_differences(found.cycles, found.differences, found.policy.removeprefix("@"))
    if found.differences and found.same_policy:
        raise typer.Exit(1)
