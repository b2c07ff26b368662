"""`headway replay`."""

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.run import Data

if TYPE_CHECKING:
    from headway.runtime.replay import Difference


def replay(
    journal: Annotated[
        str,
        typer.Argument(
            help="A journal.jsonl; or a run: its name, its folder, or `latest`.",
            show_default=False,
        ),
    ],
    policy: Annotated[
        str, typer.Option("--policy", "-p", help="Decide by this.", show_default="the journal's")
    ] = "",
    reasons: Annotated[
        bool, typer.Option("--reasons", help="The same decision for another reason differs too.")
    ] = False,
    data: Data = None,
    as_json: Annotated[bool, typer.Option("--json", help="One object a difference.")] = False,
) -> None:
    """Decide every cycle of JOURNAL again, and show where the decisions differ.

    By the policy that wrote it nothing may differ (exit code 1 if it does). By another, the
    differences are what that one would have done.

        headway replay latest

        headway simulate w.yaml --policy headway --journal j.jsonl && headway replay j.jsonl
    """
    from headway.cli.output import as_json as to_text
    from headway.cli.output import show_differences
    from headway.core.model.serialization import to_plain
    from headway.errors import ConfigError
    from headway.policy.registry import build
    from headway.runtime.journal import read
    from headway.runtime.replay import replay as decide_again

    path = _path(journal, data)
    lines = read(path)
    first = next(lines, None)
    if first is None:
        raise ConfigError("there is no cycle in this journal", where=str(path))
    if first["cycle"] > 1:
        raise ConfigError("this journal has lost its beginning", where=str(path))
    wrote = first.get("policy", "")
    if not (policy or wrote):
        raise ConfigError("the journal does not say its policy", hint="say it with --policy")
    real = "@" if wrote.startswith("@") else ""  # decided as it is for real, by whichever policy
    chosen = f"{real}{policy}" if policy else wrote
    cycles, found = decide_again(chain([first], lines), build(chosen))
    found = found if reasons else [d for d in found if not _same_but_for_reasons(d)]
    if chosen != wrote:  # what another remembers is its own
        found = [d for d in found if d.what != "memory"]
    if as_json:
        typer.echo(
            to_text([
                {"cycle": d.cycle, "at_s": d.at_s, "what": d.what, "then": to_plain(d.then),
                 "now": to_plain(d.now)}
                for d in found
            ])
        )  # fmt: skip
    else:
        show_differences(cycles, found, chosen.removeprefix("@"))
    if found and chosen == wrote:
        raise typer.Exit(1)


def _path(journal: str, data: Path | None) -> Path:
    from headway.runtime.run_directory import RunDirectory, data_folder

    given = Path(journal)
    if given.is_dir() and (given / "journal.jsonl").exists():
        return given / "journal.jsonl"
    if given.exists() or given.suffix == ".jsonl":
        return given
    return RunDirectory.find(data_folder(data), journal).journal


def _same_but_for_reasons(found: "Difference") -> bool:
    from dataclasses import replace

    then, now = ([replace(d, reason="") for d in each] for each in (found.then, found.now))
    return found.what == "plan" and then == now
