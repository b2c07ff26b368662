"""The only place that writes to the terminal, with `SafeConsole` for tables.

Jobs write anything to their logs, and a log line can become a reason that a command prints. Escape
sequences could change the title, clear the screen, or write to the clipboard, so that every text is
cleaned before it is styled.
"""

import json
import re
import sys
from collections.abc import Sequence
from typing import Any

import typer

_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*+[ -/]*+[@-~]?+"  # CSI: colours, cursor, clear screen
    r"|(?:\x1b[]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*+(?:\x07|\x9c|\x1b\\)?+"  # OSC, DCS
    r"|\x1b[ -/]*+[0-~]?+"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""C0 except tab and newline, DEL, C1, line separators, and marks that reverse text."""
_SURROGATE = re.compile(r"[\ud800-\udfff]")
"""Surrogates from file names that are not UTF-8; they cannot be printed."""

IDLE_SERVER = "the server has no unfinished jobs; submit one: headway submit -- COMMAND"
LONG = 24
"""Length of the name of a policy, with its settings, that is abbreviated in a narrow terminal."""


def clean(text: str) -> str:
    r"""Return the text without control characters and escape sequences.

    >>> clean("\x1b]52;c;aGk=\x07a\x1b[2Jb\x9b31mc\rd")
    'abcd'
    """
    return _SURROGATE.sub("\ufffd", _CONTROL.sub("", _SEQUENCE.sub("", text)))


def many(count: int, what: str) -> str:
    """Return a count with its noun.

    >>> many(1, "job"), many(2, "job")
    ('1 job', '2 jobs')
    """
    return f"{count} {what}{'s' * (count != 1)}"


def continuing(count: int) -> tuple[str, str]:
    """Return how many jobs continue, and the pronoun for them.

    >>> continuing(1), continuing(2)
    (('1 job continues', 'it'), ('2 jobs continue', 'them'))
    """
    return ("1 job continues", "it") if count == 1 else (f"{count} jobs continue", "them")


def brief(policy: str, policies: Sequence[str]) -> str:
    """Return the name of a policy without long settings, unless another one has the same name.

    >>> long = "dragon:starve_after=2,grow_after=2"
    >>> brief(long, ["spread", long]), brief(long, ["dragon", long]) == long
    ('dragon:…', True)
    """
    name = policy.partition(":")[0]
    alike = sum(p.partition(":")[0] == name for p in policies)
    return f"{name}:…" if len(policy) > LONG and alike == 1 else policy


def echo(text: str, *, err: bool = False, nl: bool = True) -> None:
    typer.echo(clean(text), err=err, nl=nl)


def print_json(thing: Any) -> None:
    echo(json.dumps(thing, indent=2, allow_nan=False))


def draw(text: str, *, flush: bool = False) -> None:
    """Write text that has its own styles, made of cleaned parts, to standard error."""
    sys.stderr.write(text)
    if flush:
        sys.stderr.flush()
