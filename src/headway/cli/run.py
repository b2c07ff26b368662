"""`headway run` and `headway adopt`: manage jobs until they end."""

import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import takewhile
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from headway.cli.options import AsJson, Command, Data, Engine, ObserveOnly, Policy, Steps
from headway.cli.terminal import echo, print_json

if TYPE_CHECKING:
    from headway.cli.display import Display
    from headway.runtime.result import Result
    from headway.runtime.run import Run
    from headway.runtime.start import RunOptions

COMMAND = "headway.command"
"""Key of the context for the words after `--`."""


class CommandAfterDashes(Command):
    """Keeps the words after `--` apart: they are the command of a job."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND]"]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            args, ctx.meta[COMMAND] = args[:at], args[at + 1 :]
        elif not ctx.resilient_parsing:
            _refuse_a_command(ctx.info_name, args)
        return super().parse_args(ctx, args)


def _refuse_a_command(name: str, args: Sequence[str]) -> None:
    """Raise if the words are a command without `--` before it: a script, or several words."""
    from headway.errors import ConfigError

    words = list(takewhile(lambda arg: not arg.startswith("-"), args[:2]))
    script = bool(words) and words[0].endswith(".py")
    if script or len(words) > 1:
        command = shlex.join(["python", *args] if script else args)
        raise ConfigError(
            f"{words[0]} is not a workload file",
            hint=f"write -- before a command: headway {name} -- {command}",
        )


def run(
    ctx: typer.Context,
    workload: Annotated[
        Path | None, typer.Argument(help="YAML file, kind: Workload.", show_default=False)
    ] = None,
    steps: Steps = None,
    policy: Policy = "headway",
    observe_only: ObserveOnly = False,
    nodes: Annotated[
        int | None,
        typer.Option(min=1, max=10_000, help="Divide the machine into this many equal nodes."),
    ] = None,
    backend: Annotated[
        Literal["local", "docker", "kubernetes"],
        typer.Option(help="Run jobs as local processes, Docker containers, or pods."),
    ] = "local",
    engine: Engine = None,
    image: Annotated[
        str, typer.Option(help="Docker, Kubernetes: the image of tasks that name none.")
    ] = "headway-workloads",
    namespace: Annotated[
        str,
        typer.Option(help="Kubernetes: namespace of the jobs.", show_default="the kubeconfig's"),
    ] = "",
    resume: Annotated[
        str | None,
        typer.Option(help="Continue this run (`latest`), whose Headway process has died."),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write a copy of the report here.")] = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Run WORKLOAD, or one command, as real processes, containers or pods, and write a report.

    Locally it needs only Python: shares are enforced by cgroups if this user may write to them,
    otherwise by nice and pacing. With Docker each engine is a node; on Kubernetes each job is a
    TrainingJob. Ctrl-C on a terminal asks whether to stop the jobs or to leave them running;
    without a terminal it stops them. If Headway itself is killed, they continue.

        headway run -- python train.py --epochs 10
        headway run workloads/five-jobs.yaml --policy headway
        headway run workloads/five-jobs.yaml --backend docker --image my-image
        headway run workloads/five-jobs.yaml --backend kubernetes --image my-image
        headway run --resume latest
    """
    from headway.report.page import check_writable
    from headway.runtime.run_directory import data_folder
    from headway.runtime.start import RunOptions, start_run

    options = RunOptions(
        workload=workload,
        command=tuple(ctx.meta.get(COMMAND, ())),
        steps=steps,
        resume=resume,
        policy=policy,
        platform=backend,
        observe_only=observe_only,
        nodes=nodes,
        engines=tuple(engine or ()),
        image=image,
        namespace=namespace,
    )
    if html:
        check_writable(html)
    if options.command and backend == "local":
        shown = program(options.command[0])
        if not as_json:
            echo(shown, err=True)
    if backend == "local" and not resume and not as_json:
        _say_server(data_folder(data), options)
    follow(lambda: start_run(options, data_folder(data)), html=html, as_json=as_json)


def _say_server(data: Path, options: "RunOptions") -> None:
    from headway.runtime.api_address import server_here

    if server_here(data):
        what = f"-- {shlex.join(options.command)}" if options.command else str(options.workload)
        echo(
            "a server is active on this machine; this run and its jobs divide the CPU. "
            f"To queue there instead: headway submit {what}",
            err=True,
        )


def program(name: str) -> str:
    """Say which program a job runs: often it is another Python than intended."""
    from headway.errors import ConfigError

    path = which(name)
    if path is None and Path(name).is_file() and "/" in name:
        raise ConfigError(f"{name} is not executable", hint=f"chmod +x {name}")
    if path is None:
        raise ConfigError(f"command not found: {name}", hint="check its spelling, and PATH")
    ours = sys.prefix != sys.base_prefix and Path(path).is_relative_to(sys.prefix)
    return f"program: {path}" + (" (the environment in which Headway is installed)" if ours else "")


def adopt(
    what: Annotated[
        list[str] | None,
        typer.Argument(help="Process IDs, or names of containers.", show_default=False),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(help="All containers with this label, including those started later."),
    ] = None,
    policy: Policy = "headway",
    observe_only: ObserveOnly = False,
    engine: Engine = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Manage processes or containers that already run, until they exit or you press Ctrl-C.

    Processes are named by process ID; Headway reads their loss from the file that their output is
    redirected to, if there is one. Docker containers are named by name or label; Headway reads
    their log. Headway never stops what it adopted: after Ctrl-C it continues without limits.

        headway adopt 4711 4712
        headway adopt trainer-1 --policy flowcon
        headway adopt --label headway.dev/job
    """
    from headway.runtime.run_directory import data_folder
    from headway.runtime.start import adopt_named

    start = partial(
        adopt_named,
        what or (),
        label,
        policy,
        data=data_folder(data),
        observe_only=observe_only,
        engines=tuple(engine or ()),
    )
    follow(start, as_json=as_json)


QUESTION = "Ctrl-C: stop the jobs. d, Enter: detach, the jobs continue. Enter: go on."


def _ask(live: "Run", display: "Display") -> None:
    """Ask what the first Ctrl-C means. The run continues until the answer."""
    display.question = QUESTION

    def heard() -> None:
        word = sys.stdin.readline().strip().lower()
        display.line_entered()
        live.backend.stop_waking(sys.stdin.fileno())
        display.question = ""
        if word in ("d", "detach"):
            live.answer("detach")
        else:
            live.ask = lambda: _ask(live, display)

    live.backend.wake_by(sys.stdin.fileno(), heard)


def follow(start: Callable[[], "Run"], *, html: Path | None = None, as_json: bool = False) -> None:
    """Start a run and show it until it ends, write its report and print its result."""
    from headway.cli.display import Display
    from headway.cli.output import show_outcomes
    from headway.cli.result_table import show_results
    from headway.report.run_page import (
        describe_failures,
        describe_output,
        estimate_gain,
        write_run,
    )
    from headway.runtime.run import Detached

    result: Result | None = None
    live = start()  # last: from here until the loop handles it, Ctrl-C would leave an open run
    with Display(live, quiet=as_json) as display:
        terminal = sys.stdin.isatty() and sys.stderr.isatty() and not as_json
        if terminal and "adopted" not in live.folder.about:  # those are never stopped
            live.ask = lambda: _ask(live, display)
        with suppress(Detached):
            result = live.go(display.show)
    if result is None:  # detached; said now, because the display wipes its last lines at its end
        echo(f"the jobs continue; manage them again: headway run --resume {live.folder.id}")
        return
    page = write_run(live.folder, copy_to=html)
    if as_json:
        print_json([live.plain(result)])
    else:
        if len(result.per_job) == 1:  # its end is reported already
            show_outcomes(describe_output(live.folder, [result.per_job[0].name]))
        else:
            show_results([[result]])
            show_outcomes(describe_failures(live.folder))
        if live.observed:
            echo(estimate_gain(live.folder))
        echo(f"report: {html or page}")
    if live.interrupted:
        raise typer.Exit(130)
    if any(job.outcome != "succeeded" for job in result.per_job):
        raise typer.Exit(1)
