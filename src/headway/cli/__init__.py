"""The command line: one file per command, which parses options, calls one function and prints."""

import json
import sys
from collections.abc import Callable
from inspect import getdoc
from textwrap import dedent

import typer

from headway import __version__
from headway.cli import (
    agent,
    ask,
    bench,
    calibrate,
    clean,
    demo,
    doctor,
    drain,
    explain,
    forget,
    jobs,
    kubernetes,
    operator,
    policies,
    reproduce,
    run,
    serve,
    simulate,
    stop,
    token,
    top,
    workload,
)
from headway.cli.options import Command
from headway.cli.terminal import echo
from headway.errors import HeadwayError, of_file

app = typer.Typer(
    name="headway",
    help="Headway moves CPU to the training jobs that turn it into progress.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(requested: bool) -> None:
    if requested:
        echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    _: bool = typer.Option(
        False, "--version", help="Print the version.", callback=_version, is_eager=True
    ),
) -> None:
    pass


TAKES_A_COMMAND = (run.run, serve.submit)
PANELS = {
    "Run jobs": (demo.demo, run.run, serve.serve, serve.submit, stop.stop, run.adopt),
    "Look at jobs": (
        jobs.ps, top.top, jobs.logs, jobs.wait, explain.explain, explain.report, jobs.history,
    ),
    "Change jobs and nodes": (
        ask.cancel, ask.pause, ask.resume, ask.move, ask.scale, drain.drain, drain.undrain,
    ),
    "Simulate and measure": (
        simulate.simulate, policies.policies, calibrate.calibrate, reproduce.reproduce, bench.bench,
        explain.replay,
    ),
    "Maintain": (doctor.doctor, forget.forget, clean.clean),
    "Kubernetes": (operator.operator, agent.agent),
}  # fmt: skip
"""Commands, by the panel of `headway --help`."""
for panel, commands in PANELS.items():
    for command in commands:
        app.command(rich_help_panel=panel)(command)
app.add_typer(workload.app, name="workload", rich_help_panel="Simulate and measure")
app.add_typer(token.app, name="token", rich_help_panel="Maintain")
app.add_typer(kubernetes.app, name="kubernetes", rich_help_panel="Kubernetes")


def _help_of(command: Callable[..., object]) -> str:
    """Return its docstring with fenced examples: Typer joins the lines of some indented ones."""
    blocks = (dedent(block) for block in (getdoc(command) or "").split("\n\n"))
    examples = ("headway ", "nohup headway ")
    return "\n\n".join(f"```\n{b}\n```" if b.startswith(examples) else b for b in blocks)


for some in (app, *(group.typer_instance for group in app.registered_groups)):
    for each in some.registered_commands if some else ():
        each.help = _help_of(each.callback) if each.callback else None
        each.cls = run.CommandAfterDashes if each.callback in TAKES_A_COMMAND else Command


def main() -> None:
    """Run a command; a `HeadwayError` becomes a message and an exit code."""
    try:
        app()
    except HeadwayError as error:
        _print_error(error)
        raise SystemExit(error.exit_code) from None
    except OSError as error:
        wrapped = of_file(error)
        _print_error(wrapped)
        raise SystemExit(wrapped.exit_code) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _print_error(error: HeadwayError) -> None:
    if "--json" in sys.argv:
        echo(json.dumps(error.plain()))
        return
    echo(f"headway: {error.message}", err=True)
    for label, text in (("where", error.where), ("remedy", error.hint)):
        if text:
            echo(f"  {label}: {text}", err=True)
