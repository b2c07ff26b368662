"""Tables of jobs and of runs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from headway.cli.facts import steps, with_clock
from headway.cli.output import SafeConsole, plain_table
from headway.core.model.units import Seconds
from headway.runtime.job_status import JobStatus

if TYPE_CHECKING:
    from headway.runtime.run_history import PastRun


def show_jobs(jobs: Sequence[JobStatus], *, several: bool) -> None:
    """Print one row per job. `several`: name their runs too."""
    SafeConsole().print(jobs_table(jobs, several=several), highlight=False)


def jobs_table(jobs: Sequence[JobStatus], *, several: bool, selected: int | None = None) -> Table:
    """A table with one row per job; one of them can be `selected`."""
    table = plain_table("job", no_wrap=True)
    if several:
        table.add_column("run", no_wrap=True)
    users = any(job.user for job in jobs)
    if users:
        table.add_column("user", no_wrap=True)
    table.add_column("phase", no_wrap=True)
    if users:
        table.add_column("share", justify="right", no_wrap=True)
    for name in ("step", "loss", "cores", "time", "ETA"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("reason", overflow="fold")
    for i, job in enumerate(jobs):
        row = [
            job.job,
            *[job.run] * several,
            *[job.user] * users,
            job.phase,
            *["" if job.share is None else f"{job.share:.0%}"] * users,
            steps(job.step, job.total_steps),
            "" if job.value is None else f"{job.value:.4g}",
            "" if job.cores is None else f"{job.cores:.2f}",
            _duration(_since_submitted(job)),
            _eta(job),
            with_clock(job.reason, job.at_s if job.decided_s is None else job.decided_s, job.began),
        ]
        table.add_row(*map(escape, row), style="reverse" if i == selected else None)
    return table


def show_history(runs: "Sequence[PastRun]") -> None:
    table = plain_table("run", "state", "policy", no_wrap=True)
    table.add_column("mean", justify="right", no_wrap=True)
    table.add_column("jobs", overflow="fold")
    table.add_column("what", overflow="fold", min_width=20)
    for run in runs:
        jobs = ", ".join(f"{count} {outcome}" for outcome, count in run.outcomes.items())
        row = (run.run, run.state, run.policy, _duration(run.mean_completion_s), jobs, run.what)
        table.add_row(*map(escape, row))
    SafeConsole().print(table, highlight=False)


def _since_submitted(job: JobStatus) -> Seconds | None:
    """How long it took, or has taken until now."""
    end = job.finished_s if job.ended else job.at_s or None
    return None if end is None or end < job.submitted_s else end - job.submitted_s


def _eta(job: JobStatus) -> str:
    if job.eta_s is None or job.ended:
        return ""
    bound = "≤" if job.eta_s == job.guarantee_s else ""
    return bound + _duration(max(0.0, job.eta_s - job.at_s))


def _duration(seconds: Seconds | None) -> str:
    """Return a duration in the two largest units.

    >>> _duration(7.26), _duration(200), _duration(3 * 3600 + 125), _duration(None)
    ('7.3 s', '3 min 20 s', '3 h 2 min', '')
    """
    if seconds is None:
        return ""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
