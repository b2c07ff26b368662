"""The runs of a data directory, with their outcome."""

import json
import shlex
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from headway.core.model.units import Seconds
from headway.errors import ConfigError, HeadwayError
from headway.runtime.run_directory import COMMAND_LINE, RunDirectory


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    run: str
    began: float
    """Time of day."""
    state: str
    """`active`, `ended`, `stopped` (a server), or `interrupted`: its process has died, and it can
    be resumed."""
    what: str = ""
    """Workload file or command."""
    policy: str = ""
    outcomes: dict[str, int] = field(default_factory=dict)
    """Number of jobs by outcome, after the run has ended."""
    mean_completion_s: Seconds | None = None

    def plain(self) -> dict[str, Any]:
        return asdict(self)


def run_history(data: Path, most: int) -> list[PastRun]:
    """Return the last runs, the latest first."""
    return [_past(run) for run in RunDirectory.all(data)[: -most - 1 : -1]]


def _past(run: RunDirectory) -> PastRun:
    try:
        about = run.about
    except (ConfigError, OSError):
        return PastRun(run=run.id, began=0.0, state="damaged")
    stopped = "stopped" if "server" in about else "interrupted"
    state = "active" if run.locked else "ended" if run.ended else stopped
    result = _result(run) if state == "ended" else {}
    return PastRun(
        run=run.id,
        began=float(about.get("began", 0.0)),
        state=state,
        what=describe_run(run, about),
        policy=about.get("policy", ""),
        outcomes=dict(Counter(job["outcome"] for job in result.get("per_job", ()))),
        mean_completion_s=result.get("mean_completion_s"),
    )


def describe_run(run: RunDirectory, about: dict[str, Any]) -> str:
    """Return the file or the command of a run."""
    if "server" in about:
        return "server"
    if "workload" not in about:
        return "adopted " + " ".join(map(str, about.get("adopted", ())))
    name = Path(about["workload"]).name
    if name != COMMAND_LINE:
        return name
    from headway.spec.load import read_stored  # noqa: PLC0415 - slow

    try:
        [job] = read_stored(run.path / "workload.yaml").jobs
        return shlex.join(job.spec.tasks[0].command) if job.spec else name
    except (OSError, HeadwayError, ValueError):
        return name


def _result(run: RunDirectory) -> dict[str, Any]:
    try:
        return dict(json.loads((run.path / "result.json").read_text(encoding="utf-8"))[0])
    except (OSError, ValueError, TypeError, IndexError):
        return {}
