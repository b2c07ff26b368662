"""Start a run from a user's options: check them, choose the platform, begin, resume or adopt."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.backend.docker import adopt as containers
from headway.backend.local.adopt import to_jobs
from headway.errors import ConfigError
from headway.runtime.run import Run, adopt, begin, resume
from headway.runtime.targets import Docker, Engines, OnCluster
from headway.spec.load import read_workload


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of `headway run`."""

    workload: Path | None = None
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
        """Raise if two options contradict each other."""
        if (self.workload is None) == (self.resume is None):
            raise ConfigError("give either a workload or --resume RUN", hint="headway run --help")
        for option, given, platform, hint in (
            ("--nodes", self.nodes, "local", "for Docker list `nodes:` in the workload"),
            ("--namespace", self.namespace, "kubernetes", "add --backend kubernetes"),
            ("--engine", self.engines, "docker", "add --backend docker"),
        ):
            if given and self.platform != platform:
                raise ConfigError(f"{option} needs --backend {platform}", hint=hint)


def start_run(options: RunOptions, data: Path) -> Run:
    """Begin a run of a workload, or resume the run that the options name."""
    if options.workload is None:
        return resume(data, options.resume or "latest")
    on: Docker | OnCluster | None = None
    if options.platform == "docker":
        on = Docker(options.engines, options.image)
    elif options.platform == "kubernetes":
        on = OnCluster(options.image, options.namespace)
    return begin(
        read_workload(options.workload),
        options.workload,
        options.policy,
        data=data,
        observe_only=options.observe_only,
        nodes=options.nodes,
        on=on,
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
    pids = [int(name) for name in names if name.isdigit()]
    if pids and len(pids) < len(names):
        raise ConfigError(
            "one run cannot adopt both processes and containers",
            hint="run headway adopt once for each",
        )
    if pids:
        return adopt(to_jobs(pids), policy, data=data, observe_only=observe_only)
    found = Engines.of(Docker(engines), None, label or "")
    jobs = (
        containers.by_label(found.engines, label)
        if label
        else containers.by_name(found.engines, names)
    )
    return adopt(jobs, policy, data=data, observe_only=observe_only, engines=found)
