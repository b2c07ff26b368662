"""The screen of `headway top`: the jobs that run, and keys to change them."""

import os
import re
import select
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from shutil import get_terminal_size

from rich.console import Group
from rich.live import Live
from rich.text import Text

from headway.cli.facts import facts_lines, with_clock
from headway.cli.job_tables import jobs_table
from headway.cli.output import SafeConsole
from headway.cli.terminal import clean, many
from headway.core.model.snapshot import Request
from headway.core.model.units import JobId, Seconds
from headway.errors import ConfigError, HeadwayError
from headway.report.explain import explain_job
from headway.runtime.job_status import JobStatus
from headway.runtime.request_client import ask
from headway.runtime.run_directory import RunDirectory
from headway.runtime.run_status import known_runs, run_status, stopped

HELP = "↑ ↓ select   p pause or resume   c cancel   e explain   s sort   q quit"
UP, DOWN, QUIT = "\x1b[A", "\x1b[B", "q"
ORDERS = ("submission", "name", "ETA", "cores used")


def show(data: Path, run: str, every: Seconds) -> None:
    """Show the jobs until the user quits."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError("headway top needs a terminal", hint="use headway ps")
    screen = Top(data, run)
    with _keys(), Live(console=SafeConsole(), screen=True, auto_refresh=False) as live:
        while True:
            screen.look()
            live.update(screen.picture(), refresh=True)
            for key in _pressed(every):
                if key == QUIT:
                    return
                screen.press(key)
                live.update(screen.picture(), refresh=True)


@dataclass(slots=True)
class Top:
    data: Path
    run: str = ""
    jobs: list[JobStatus] = field(default_factory=list)
    at: int = 0
    """The selected row."""
    order: str = ORDERS[0]
    stopped: str = ""
    """Says that the process of these jobs has ended; "": it is active."""
    message: str = ""
    asked: tuple[str, str] | None = None
    """The job that is cancelled if the user confirms it."""
    explanation: list[str] = field(default_factory=list)
    """Lines of the explanation of a job."""

    def look(self) -> None:
        selected = self.selected
        try:
            folders = known_runs(self.data, self.run)
            jobs = [job for folder in folders for job in run_status(folder) if not job.ended]
            runs = {job.run for job in jobs}
            left = [folder for folder in folders if folder.id in runs and not folder.locked]
            self.stopped = stopped(left[0]).message if left else ""
        except (HeadwayError, OSError) as error:
            # A file was replaced: it is there at the next look.
            self.message = str(error)
            return
        self.jobs = sorted(jobs, key=self._key)
        same = [i for i, job in enumerate(self.jobs) if selected and _id(job) == _id(selected)]
        self.at = same[0] if same else max(0, min(self.at, len(self.jobs) - 1))

    def _key(self, job: JobStatus) -> tuple[float, str]:
        match self.order:
            case "ETA":
                return (job.eta_s if job.eta_s is not None else float("inf"), job.job)
            case "cores used":
                return (-(job.cores or 0.0), job.job)
            case "name":
                return (0.0, job.job)
        return (job.submitted_s + job.began, job.job)

    @property
    def selected(self) -> JobStatus | None:
        return self.jobs[self.at] if self.at < len(self.jobs) else None

    def press(self, key: str) -> None:
        job, confirmed = self.selected, self.asked
        self.message, self.asked, self.explanation = "", None, []
        if key == "s":
            self.order = ORDERS[(ORDERS.index(self.order) + 1) % len(ORDERS)]
            self.jobs.sort(key=self._key)
        elif key in (UP, "k"):
            self.at = max(0, self.at - 1)
        elif key in (DOWN, "j"):
            self.at = max(0, min(self.at + 1, len(self.jobs) - 1))
        elif job is None:
            return
        elif key == "p":
            self._request(job, "resume" if job.phase == "paused" else "pause")
        elif key == "c":
            self.asked, self.message = _id(job), f"Cancel {job.job}? y: yes, any other key: no"
        elif key == "y" and confirmed == _id(job):
            self._request(job, "cancel")
        elif key == "e":
            self._explain(job)

    def _request(self, job: JobStatus, wish: str) -> None:
        try:
            folder = RunDirectory.find(self.data, job.run)
            why = ask(folder, Request(job=JobId(job.job), wish=wish))
        except HeadwayError as error:
            why = error.message
        self.message = f"{job.job}: cannot {wish}: {why}" if why else f"{job.job}: {wish} started"

    def _explain(self, job: JobStatus) -> None:
        try:
            found = explain_job(RunDirectory.find(self.data, job.run).journal, job.job)
        except HeadwayError as error:
            self.message = error.message
            return
        facts = facts_lines(found.facts, found.began) if found.facts else []
        self.explanation = [f"{label:<10} {text}" for label, text in facts]
        room = get_terminal_size().lines - len(self.jobs) - len(facts) - 5  # the lines around it
        last = found.events[max(0, len(found.events) - max(0, min(8, room))) :]
        lines = (f"{e.at_s:8.1f} s  {e.what}  {e.why}" for e in last)
        self.explanation += ["", *(with_clock(line, job.at_s, found.began) for line in lines)]

    def picture(self) -> Group:
        count = len(self.jobs)
        head = f"{many(count, 'job')}, sorted by {self.order}" if count else "nothing runs"
        head += f"; {self.stopped}" if self.stopped else ""
        several = len({job.run for job in self.jobs}) > 1
        width = get_terminal_size().columns
        table, _ = jobs_table(self.jobs, width, several=several, selected=self.at)
        below = [*self.explanation, *[self.message] * bool(self.message)]
        return Group(
            Text(head, style="bold"), table, Text(""), *map(_line, below), Text(HELP, style="dim")
        )


def _id(job: JobStatus) -> tuple[str, str]:
    return job.run, job.job


def _line(text: str) -> Text:
    return Text(clean(text), overflow="ellipsis", no_wrap=True)


@contextmanager
def _keys() -> Iterator[None]:
    """Keys are read one by one and are not shown."""
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _pressed(seconds: float) -> Sequence[str]:
    """The keys that are pressed in this time, at the first of them; an arrow is one key."""
    if not select.select([sys.stdin], [], [], seconds)[0]:
        return ()
    text = os.read(sys.stdin.fileno(), 64).decode(errors="ignore")
    if not text:
        return (QUIT,)  # the terminal is gone
    return re.findall("\x1b\\[[A-D]|[^\x1b]", text)
