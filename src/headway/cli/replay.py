"""`headway replay`."""

from itertools import chain
from pathlib import Path
from typing import Annotated

import typer


def replay(
    journal: Annotated[
        Path, typer.Argument(help="A journal.jsonl, or the folder of a run.", show_default=False)
    ],
    policy: Annotated[
        str, typer.Option("--policy", "-p", help="Decide by this.", show_default="the journal's")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="One object a difference.")] = False,
) -> None:
    """Decide every cycle of JOURNAL again, and show where the decisions differ.

    By the policy that wrote it nothing may differ (exit code 1 if it does). By another, the
    differences are what that one would have done.

        headway simulate w.yaml --policy headway --journal j.jsonl && headway replay j.jsonl
    """
    from headway.cli.render import as_json as to_text
    from headway.cli.render import show_differences
    from headway.core.codec import to_plain
    from headway.errors import ConfigError
    from headway.policy.registry import build
    from headway.runtime.journal import read
    from headway.runtime.replay import replay as decide_again

    path = journal / "journal.jsonl" if journal.is_dir() else journal
    lines = read(path)
    first = next(lines, None)
    if first is None:
        raise ConfigError("there is no cycle in this journal", where=str(path))
    if first["cycle"] > 1:
        raise ConfigError("this journal has lost its beginning", where=str(path))
    wrote = first.get("policy", "")
    if not (policy or wrote):
        raise ConfigError("the journal does not say its policy", hint="say it with --policy")
    cycles, found = decide_again(chain([first], lines), build(policy or wrote))
    if as_json:
        typer.echo(
            to_text([
                {"cycle": d.cycle, "at_s": d.at_s, "what": d.what, "then": to_plain(d.then),
                 "now": to_plain(d.now)}
                for d in found
            ])
        )  # fmt: skip
    else:
        show_differences(cycles, found, policy or wrote)
    if found and policy in ("", wrote):
        raise typer.Exit(1)
