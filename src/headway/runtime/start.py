"""Start a run: begin a workload, resume a run, or adopt running processes or containers."""

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headway import __version__
from headway.backend.clock import Clock
from headway.backend.docker import adopt as containers
from headway.backend.docker.discovery import check_images
from headway.backend.local import adopt as processes
from headway.backend.local.enforcement.cgroupfs import sweep
from headway.backend.local.run_as import check_users
from headway.core.model.job import JobSpec
from headway.errors import ConfigError
from headway.policy.registry import build
from headway.runtime import journal
from headway.runtime.earlier_runs import EarlierRuns, keys
from headway.runtime.garbage import no_collector
from headway.runtime.last_reports import reported
from headway.runtime.loop import Loop
from headway.runtime.run import ObserveOnly, Run
from headway.runtime.run_directory import COMMAND_LINE, RunDirectory
from headway.runtime.targets import Docker, Engines, Machine, OnCluster, Target, find_target
from headway.spec.arrivals import expand, to_plain
from headway.spec.capacity_check import refuse_too_large
from headway.spec.load import read_stored, read_workload
from headway.spec.node_spec import NodeSpec
from headway.spec.platform_features import ALL_FEATURES, LIVE_FEATURES
from headway.spec.runnable import RunnableJob, to_jobs
from headway.spec.single_job import single_job
from headway.spec.workload import Workload, make_workload

_PID = re.compile("[0-9]{1,10}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of `headway run`."""

    workload: Path | None = None
    command: tuple[str, ...] = ()
    """The command of a single job, instead of a workload."""
    steps: int | None = None
    """Total steps of that job."""
    resume: str | None = None
    """The run to continue, instead of a workload."""
    policy: str = "headway"
    platform: str = "local"
    observe_only: bool = False
    nodes: int | None = None
    engines: tuple[str, ...] = ()
    image: str = ""
    namespace: str = ""

    def __post_init__(self) -> None:
        """Raise an error if options contradict each other."""
        sources = [self.workload is None, not self.command, self.resume is None].count(False)
        if sources != 1:
            count = "only one: " if sources else ""
            raise ConfigError(
                f"give {count}a workload, or a command after --, or --resume RUN",
                hint="headway run --help",
            )
        if self.steps is not None and not self.command:
            raise ConfigError("--steps needs a command after --", hint="set totalSteps in the file")
        for option, given, platform, hint in (
            ("--nodes", self.nodes, "local", "for Docker list `nodes:` in the workload"),
            ("--namespace", self.namespace, "kubernetes", "add --backend kubernetes"),
            ("--engine", self.engines, "docker", "add --backend docker"),
        ):
            if given and self.platform != platform:
                raise ConfigError(f"{option} needs --backend {platform}", hint=hint)


@no_collector()  # it takes a third of the time to resume a run of 10,000 jobs
def start_run(options: RunOptions, data: Path) -> Run:
    """Begin a run of a workload, or resume the run that the options name."""
    if options.resume is not None:
        return resume(data, options.resume)
    on: Docker | OnCluster | None = None
    if options.platform == "docker":
        on = Docker(options.engines, options.image)
    elif options.platform == "kubernetes":
        on = OnCluster(options.image, options.namespace)
    path = options.workload or Path(COMMAND_LINE).absolute()
    if options.command:
        workload = make_workload(jobs=[single_job(options.command, steps=options.steps)])
    else:
        workload = read_workload(path)
    if options.nodes is not None:
        equal = NodeSpec(cpu=len(os.sched_getaffinity(0)) / options.nodes, count=options.nodes)
        workload = workload.model_copy(update={"nodes": (equal,)})
    return begin(
        workload,
        path,
        options.policy,
        data=data,
        observe_only=options.observe_only,
        recall=True,
        on=on,
    )


def begin(
    workload: Workload,
    path: Path,
    policy: str,
    *,
    data: Path,
    observe_only: bool = False,
    recall: bool = False,
    on: Docker | OnCluster | None = None,
) -> Run:
    """Start a run of the workload in `path`. `recall`: use measurements of earlier runs;
    comparisons do not. `on`: None for this machine.
    """
    build(policy)  # fails before anything is created
    listed = expand(workload, where=str(path))
    jobs = _jobs(listed, path, on, data if recall else None)
    about = {"workload": str(path.resolve()), "observe_only": observe_only, "recall": recall}
    target = find_target(on, workload)
    if isinstance(target, Engines):
        check_images(target.engines, jobs)
    if isinstance(target, Machine):
        check_users(jobs, data, str(path))
    if target.nodes is not None:
        refuse_too_large({job.id: job.spec for job in jobs}, target.nodes, str(path))
    return begin_run(jobs, policy, data, about, target, json.dumps(to_plain(listed), indent=1))


def _jobs(
    workload: Workload, path: Path, on: Docker | OnCluster | None, data: Path | None
) -> list[RunnableJob]:
    """Return the jobs of a workload. `data`: use measurements of earlier runs in this data
    directory.
    """
    supported = ALL_FEATURES if isinstance(on, OnCluster) else LIVE_FEATURES
    jobs = to_jobs(workload, path, image=on.image if on else "", supported=supported)
    return jobs if data is None else EarlierRuns(data).fill_in(jobs)


def resume(data: Path, name: str) -> Run:
    """Continue a run whose Headway process has ended. Its jobs may have continued meanwhile."""
    folder = RunDirectory.find(data, name)
    folder.check_format()
    about = folder.about
    if "server" in about:
        raise ConfigError("this is the run of a server", hint="headway serve")
    if "workload" not in about:
        raise ConfigError("a run of adopted jobs cannot be resumed", hint="adopt it again")
    folder.lock()
    if folder.ended:
        folder.unlock()
        raise ConfigError(
            f"run {folder.id} has ended",
            where=str(folder.path),
            hint=f"see headway report {folder.id}",
        )
    if not (folder.path / "records").exists() and any(folder.path.glob("jobs/*/*/pid.*")):
        folder.unlock()
        raise ConfigError(
            f"run {folder.id} was started by an earlier version of Headway",
            where=str(folder.path),
            hint="resume it with that version",
        )
    path = Path(about["workload"])
    workload = read_stored(folder.path / "workload.yaml")
    on: Docker | OnCluster | None = None
    if "docker" in about:
        on = Docker(tuple(about["docker"]["engines"]), about["docker"]["image"])
    elif "kubernetes" in about:
        on = OnCluster(**about["kubernetes"])
    jobs = _jobs(workload, path, on, data if about.get("recall") else None)
    return construct_run(
        folder, jobs, about, find_target(on, workload, about.get("enforcement", ""))
    )


def adopt_named(
    names: Sequence[str],
    label: str | None,
    policy: str,
    *,
    data: Path,
    observe_only: bool = False,
    engines: tuple[str, ...] = (),
) -> Run:
    """Adopt processes by ID, or Docker containers by name or by label."""
    if bool(names) == (label is not None):
        raise ConfigError(
            "give either processes or containers, or --label KEY", hint="headway adopt --help"
        )
    pids = [int(name) for name in names if _PID.fullmatch(name)]
    if pids and len(pids) < len(names):
        raise ConfigError(
            "one run cannot adopt both processes and containers",
            hint="run headway adopt once for each",
        )
    target: Target
    if pids:
        jobs = processes.to_jobs(pids)
        # Moving a process into a cgroup would change it.
        target = Machine.of(None, "nice" if observe_only else "")
    else:
        target = Engines.of(Docker(engines), None, label or "")
        jobs = (
            containers.by_label(target.engines, label)
            if label
            else containers.by_name(target.engines, names)
        )
    about = {"adopted": [job.adopted for job in jobs], "observe_only": observe_only}
    return begin_run(jobs, policy, data, about, target)


def begin_run(
    jobs: list[RunnableJob],
    policy: str,
    data: Path,
    about: dict[str, Any],
    target: Target,
    workload: str = "",
) -> Run:
    """Start a run of these jobs. `about`: further fields of `run.json`."""
    clock = Clock()
    about = {"headway": __version__, "policy": policy, "began": clock.began, **about}
    about["boot"] = clock.boot
    about |= target.about
    folder = RunDirectory.new(data, about)
    folder.lock()
    sweep()
    try:
        # First: a run that is killed after it created cgroups can then be resumed.
        if workload:
            folder.write("workload.yaml", workload)
        run = construct_run(folder, jobs, about, target)
    except BaseException:
        folder.discard()
        raise
    return run


def _known_spec(job: RunnableJob, known: JobSpec | None) -> JobSpec:
    """Return the last known spec of a job. The nodes that it can use may have been temporary."""
    if known is None:
        return job.spec
    tasks = (replace(task, nodes=job.spec.task(task.name).nodes) for task in known.tasks)
    return replace(known, tasks=tuple(tasks))


def construct_run(
    folder: RunDirectory, jobs: list[RunnableJob], about: dict[str, Any], target: Target
) -> Run:
    """Construct a run, with the state that an earlier process has left, if any."""
    cycle, lines = 0, []
    resumed = journal.exists(folder.journal)
    if resumed:
        journal.repair(folder.journal)
        lines = journal.read_to_resume(folder.journal)
        cycle = lines[-1]["cycle"] if lines else 0
    specs = {job.id: job.spec for line in lines for job in journal.jobs_of(line)}
    # A job without a command is a stand-in for one that cannot be restarted.
    known = {
        job.id: replace(job, spec=_known_spec(job, specs.get(job.id))) if job.commands else job
        for job in jobs
    }
    last = lines[-1]["at_s"] if lines else 0.0
    clock = Clock(about["began"], about.get("boot"), at_least=last)
    backend = target.backend(folder, known, clock)
    backend.endless = "server" in about
    backend.monitor.continue_reports(reported(lines))
    if not resumed:
        how = backend.platform.enforcement[0]
        folder.write("run.json", json.dumps({**folder.about, "enforcement": how}, indent=2))
    policy = f"@{about['policy']}"
    file_journal = journal.FileJournal(
        folder.journal, cycle=cycle, policy=policy, most=journal.LONG, lines=lines
    )
    observed = about["observe_only"]
    loop = Loop(ObserveOnly(backend) if observed else backend, build(policy), file_journal)
    with journal.intact(str(folder.journal)):
        loop.restore(lines)
    total = sum(n.capacity.cpu for n in backend.controller.nodes.values())
    return Run(
        folder, backend, loop, file_journal, about["policy"], total, target.factor, observed,
        kinds=keys(jobs), clock=clock,
    )  # fmt: skip
