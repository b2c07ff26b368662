"""The reference page of the commands, generated from their options and docstrings."""

from collections.abc import Iterator
from typing import Any

import typer

from headway.cli import app

Command = Any
"""A command or a group, as Typer builds it."""
HEAD = """# Commands

<!-- Generated from the commands by scripts/generate; do not edit. -->

`headway COMMAND --help` shows the same in a terminal. Exit codes: 0 success, 1 a job failed or a
bar was missed, 2 bad input, 3 a platform is missing or denies access, 4 no server is active, 130
interrupted. With `--json`, an error is an object `{"error": {"code", "message", "where", "hint"}}`.
"""


def page() -> str:
    root = typer.main.get_command(app)
    panels: dict[str, list[str]] = {}
    for words, command, panel in _commands(root, "headway"):
        panels.setdefault(panel, []).append("\n".join(_section(words, command)))
    shown = [f"## {panel}\n\n" + "\n\n".join(sections) for panel, sections in panels.items()]
    return HEAD + "\n" + "\n\n".join(shown) + "\n"


def _commands(group: Command, words: str) -> Iterator[tuple[str, Command, str]]:
    for name, command in group.commands.items():
        panel = getattr(command, "rich_help_panel", None)
        if hasattr(command, "commands"):
            for inner, each, _ in _commands(command, f"{words} {name}"):
                yield inner, each, panel
        else:
            yield f"{words} {name}", command, panel


def _section(words: str, command: Command) -> Iterator[str]:
    yield f"### {words}\n"
    yield f"{command.help}\n"
    yield "| option | default | description |"
    yield "|---|---|---|"
    for option in command.params:
        if not getattr(option, "hidden", False):
            argument = option.param_type_name == "argument"
            opts = [option.name.upper()] if argument else [*option.opts, *option.secondary_opts]
            names = ", ".join(f"`{o}`" for o in opts)
            yield f"| {names} | {_default(option)} | {_escaped(option)} |"


def _escaped(option: Any) -> str:
    return (getattr(option, "help", None) or "").replace("|", r"\|")


def _default(option: Any) -> str:
    shown = getattr(option, "show_default", None)
    if isinstance(shown, str):
        return shown
    given = option.default
    if getattr(option, "is_flag", False) or given is None or callable(given) or given in ("", ()):
        return ""
    return ", ".join(map(str, given)) if isinstance(given, (list, tuple)) else str(given)
