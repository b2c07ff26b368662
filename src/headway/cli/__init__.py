"""The command line: one file per command, which parses options, calls one function and prints."""

import json
import sys

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
    top,
    workload,
)
from headway.cli.terminal import echo
from headway.errors import ConfigError, HeadwayError

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


app.command()(demo.demo)
for taking_a_command in (run.run, serve.submit):
    app.command(cls=run.CommandAfterDashes)(taking_a_command)
for command in (
    serve.serve, stop.stop, jobs.ps, top.top, jobs.logs, jobs.wait, jobs.history, ask.cancel,
    ask.pause, ask.resume, ask.move, ask.scale, drain.drain, drain.undrain, explain.explain,
    explain.report, explain.replay,
    run.adopt, operator.operator, agent.agent, simulate.simulate, calibrate.calibrate,
    policies.policies, doctor.doctor, forget.forget, clean.clean, bench.bench, reproduce.reproduce,
):  # fmt: skip
    app.command()(command)
app.add_typer(workload.app, name="workload")
app.add_typer(kubernetes.app, name="kubernetes")


def main() -> None:
    """Run a command; a `HeadwayError` becomes a message and an exit code."""
    try:
        app()
    except HeadwayError as error:
        _print_error(error)
        raise SystemExit(error.exit_code) from None
    except OSError as error:
        wrapped = ConfigError(f"cannot use this file: {error.strerror}", where=str(error.filename))
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
