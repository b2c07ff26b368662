"""What a job writes cannot control the terminal of the user who looks at it."""

import ast
import io
import os
import pty
import re
import select
import subprocess
import sys
from pathlib import Path
from time import monotonic

import pytest

from headway import cli
from headway.cli.display import COLUMNS, laid_out
from headway.cli.output import SafeConsole, plain_table
from headway.cli.terminal import clean

ATTACK = (
    "\x1b]0;title\x07\x1b]52;c;aGFja2Vk\x1b\\\x1b[2J\x1b[H\x9b31m\x9d0;title\x9c\x1bP1$r\x1b\\"
    "\x1bc\x07\x08\rfaked\u202eline\x7f \x90dcs\x9c"
)
FORBIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
OWN = re.compile(r"\x1b\[\d*[mFJ]")
"""Colours, and what redraws the rows of the display."""


def test_control_characters_and_sequences_are_removed():
    assert clean(f"a{ATTACK}b") == "afakedline b"
    assert clean("äöü … 日本 😀\ttab\nline") == "äöü … 日本 😀\ttab\nline"
    assert clean("\x1b]52;c;unterminated") == ""
    assert clean("\udcff") == "\ufffd"


def test_a_flood_of_escape_characters_is_cleaned_in_linear_time():
    began = monotonic()
    clean("\x1b[" * 500_000 + "\x1b]" * 500_000)
    assert monotonic() - began < 10


def test_tables_are_cleaned_cell_by_cell():
    out = io.StringIO()
    table = plain_table("reason")
    table.add_row(f"x{ATTACK}")
    SafeConsole(file=out, width=80).print(table)
    assert "xfakedline" in out.getvalue()
    assert not FORBIDDEN.search(out.getvalue())


def test_rows_of_the_display_are_cleaned():
    _, line = laid_out([COLUMNS, ("job", "pending", f"x{ATTACK}")], 80)
    assert "xfakedline" in line
    assert not FORBIDDEN.search(OWN.sub("", line))


def test_no_command_writes_to_the_terminal_in_another_way():
    """Only `terminal` and `SafeConsole` write; `sys.stderr` is not written to."""
    folder = Path(cli.__file__).parent
    for path in set(folder.glob("*.py")) - {folder / "terminal.py"}:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            assert called not in ("print", "typer.echo", "typer.secho", "Console"), path
            assert not re.match(r"sys\.std(out|err)\.write", called), path


@pytest.fixture
def attacked(tmp_path):
    """A workload whose job prints the attack, reports it, and fails with it."""
    script = tmp_path / "train.py"
    line = f"loss: 0.5 {ATTACK}"
    script.write_text(
        "import json, os, sys, time\n"
        f"sys.stdout.buffer.write({line.encode() + b' loss 1'!r} + b'\\n')\n"
        "sys.stdout.flush()\n"
        "time.sleep(0.5)\n"
        f"sys.stdout.buffer.write({f'Error: {ATTACK}'.encode()!r})\n"
        "sys.exit(3)\n",
        encoding="utf-8",
    )
    path = tmp_path / "w.yaml"
    path.write_text(
        "apiVersion: headway.dev/v1alpha1\nkind: Workload\njobs: [{name: x, spec: "
        f"{{backoffLimit: 0, tasks: [{{command: [{sys.executable}, {script}]}}]}}}}]\n"
    )
    return path


def in_terminal(*words, data):
    """Run a command in a terminal; return all that it printed."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "headway", *map(str, words)]
    environment = {**os.environ, "HEADWAY_DATA": str(data), "HEADWAY_ENFORCEMENT": "nice"}
    child = subprocess.Popen(command, stdout=theirs, stderr=theirs, stdin=theirs, env=environment)
    os.close(theirs)
    found, until = b"", monotonic() + 120
    while monotonic() < until and select.select([ours], [], [], until - monotonic())[0]:
        try:
            found += os.read(ours, 65536)
        except OSError:
            break  # the other side is closed
    child.wait(timeout=60)
    os.close(ours)
    return found.decode(errors="replace").replace("\r\n", "\n")


def test_the_output_of_a_job_cannot_control_a_terminal(attacked, tmp_path):
    data = tmp_path / "data"
    ran = in_terminal("run", attacked, data=data)
    assert "x failed" in ran
    assert "faked" in ran
    explained = in_terminal("explain", "x", data=data)
    assert "faked" in explained
    for shown in (ran, explained):
        assert not FORBIDDEN.search(OWN.sub("", shown)), repr(FORBIDDEN.search(OWN.sub("", shown)))
        assert "52;c" not in shown
