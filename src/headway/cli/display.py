"""The live display of a run: one row per job, redrawn once a second.

Without rich: a table of rich costs 20 ms, and Headway may use 10 ms per second in all.
"""

import os
import sys
from collections.abc import Callable, Sequence
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING, Self

from headway.cli.facts import NOTHING_FOUND, eta, note, steps
from headway.cli.terminal import clean, draw, echo, many
from headway.controller.records import JobRecord
from headway.core.estimate.category import Category
from headway.core.estimate.progress import progress
from headway.core.model.job import Job, Phase
from headway.core.model.units import JobId, ReplicaId, Seconds
from headway.runtime.foreign_use import describe_foreign
from headway.runtime.job_facts import JobFacts
from headway.runtime.run import Run
from headway.runtime.usage_sampler import ReplicaSample, UsageSampler

if TYPE_CHECKING:
    from headway.core.model.report import MetricHistory

BLOCKS = "▁▂▃▄▅▆▇█"
SPARKS = 16
"""Largest number of values in a line of blocks."""
INTERVAL: Seconds = 10.0
"""Interval over which growth is judged for the display."""
GROWING = 0.05
IDLE = "no unfinished jobs; submit one: headway submit -- COMMAND"
COLUMNS = ("job", "", "category", "share", "cores used", "memory", "step", "loss", "", "ETA")
RIGHT = (3, 4, 5, 6, 7, 9)
"""Columns of numbers."""
OMITTED = (8, 5, 2, 4, 7, 3, 6)
"""Columns to omit on a narrow terminal, the first ones first."""
COLOURS = {
    Phase.RUNNING: "32", Phase.PENDING: "33", Phase.SUCCEEDED: "2", Phase.FAILED: "31",
    Phase.CANCELLED: "31",
}  # fmt: skip


class Display:
    """Rows on a terminal; on anything else, a line when something ends."""

    def __init__(
        self,
        run: Run,
        *,
        quiet: bool = False,
        patience: Seconds = 20.0,
        above: Callable[[Seconds], str] = lambda now: "",
    ) -> None:
        """`patience`: how long a job may run without a metric before this is reported. `above`: a
        line to show above the rows.
        """
        self.run, self.quiet, self.patience, self._above = run, quiet, patience, above
        self.question = ""
        """Shown above the rows until it is answered."""
        self._began = run.folder.about.get("began")
        self._drawn = 0
        self._reported: set[str] = set()
        self._warned: set[str] = set()
        self._with_metric: set[JobId] = set()
        self._categories: dict[ReplicaId, tuple[MetricHistory, str]] = {}
        """The category of each replica, and the metric history that it was computed from."""

    @property
    def _live(self) -> bool:
        """Whether there is a terminal that it may draw on: not in the background of a shell."""
        if self.quiet or not sys.stderr.isatty():
            return False
        try:
            return os.tcgetpgrp(sys.stderr.fileno()) == os.getpgrp()
        except (OSError, ValueError):  # not the terminal of a shell
            return True

    def __enter__(self) -> Self:
        run = self.run
        _, how = run.backend.platform.enforcement
        count = len(run.backend.controller.jobs)
        jobs = "a server" if run.backend.endless else many(count, "job")
        self._print(f"run {run.folder.id}: {jobs} under {run.policy}, shares by {how}")
        if not self._live and (above := self._above(0.0)):
            self._print(above)
        if run.factor < 1:
            part = f"every node is scaled to {run.factor:.2g} of it"
            self._print(f"the workload requests more CPU than this machine has: {part}")
        return self

    def __exit__(self, *error: object) -> None:
        self._wipe()
        if not self.run.backend.endless:
            self._report_ends()

    def show(self, meter: UsageSampler, now: Seconds) -> None:
        above = self.question or self._above(now)
        if not self._live:
            if not self.run.backend.endless:
                self._report_ends()
            self._report_silent(now)
            return
        width, height = get_terminal_size()
        facts = self._facts(meter, now)
        rows = [COLUMNS, *self._rows(meter, now, facts)]
        jobs = self.run.backend.controller.jobs.values()
        done = sum(j.phase.ended for j in jobs)
        count = f"{done} of {len(jobs)} done"
        if self.run.backend.endless:  # it forgets those that are done
            count = many(len(jobs), "unfinished job") if jobs else IDLE
        head = f"{now:.0f} s · {count}{self._foreign()}"
        if later := sum(not j.arrived for j in jobs):
            head += f", {later} not submitted yet"
        lines = laid_out(rows, width - 1)
        if 2 * len(rows) <= height - 1:
            notes = ["", *(self._note(row[0], facts.get(JobId(row[0])), now) for row in rows[1:])]
            lines = _interleaved(lines, notes, width - 1)
        lines = [*wrap(above, width - 1), *wrap(head, width - 1), *lines]
        if len(lines) > height - 1:
            lines = [*lines[: height - 2], f"and {len(lines) - height + 2} more"]
        self._wipe()
        draw("\n".join(lines) + "\n", flush=True)
        self._drawn = len(lines)

    def _foreign(self) -> str:
        nodes = self.run.backend.controller.nodes.values()
        used = sum(n.foreign for n in nodes)
        return f" · {describe_foreign(used, self.run.cores)}" if used else ""

    def _wipe(self) -> None:
        if self._drawn:
            draw(f"\x1b[{self._drawn}F\x1b[J")
            self._drawn = 0

    def line_entered(self) -> None:
        """The user has pressed Enter: the cursor is one line lower."""
        self._drawn += self._drawn > 0

    def _print(self, text: str) -> None:
        if not self.quiet:
            echo(text, err=True)

    def _report_ends(self) -> None:
        for job in self.run.backend.controller.jobs.values():
            if job.finished_at is not None and job.id not in self._reported:
                self._reported.add(job.id)
                self.report_end(job)

    def report_end(self, job: JobRecord) -> None:
        took = max(0.0, (job.finished_at or 0.0) - job.new.submitted_at)
        why = f": {job.reason}" if job.reason else ""
        self._wipe()
        self._print(f"{job.id} {job.outcome} after {took:.1f} s{why}")

    def _facts(self, meter: UsageSampler, now: Seconds) -> dict[JobId, JobFacts]:
        return self.run.known.facts(self.run.loop, meter, now)

    def _note(self, job: str, facts: JobFacts | None, now: Seconds) -> str:
        if job in self._silent(now):
            return NOTHING_FOUND
        return note(facts, self._began) if facts else ""

    def _silent(self, now: Seconds) -> set[JobId]:
        """The jobs that run for a while, and in whose output no metric was found."""
        running = self.run.backend.monitor.replicas.values()
        silent = [w for w in running if now - w.since >= self.patience and not w.reader.spoke]
        self._with_metric |= {
            w.id.job for w in running if w.reader.spoke
        }  # also if that one has ended
        return {w.id.job for w in silent} - self._with_metric

    def _report_silent(self, now: Seconds) -> None:
        for job in sorted(self._silent(now) - self._warned):
            self._warned.add(job)
            self._print(f"{job}: {NOTHING_FOUND}")

    def _rows(
        self, meter: UsageSampler, now: Seconds, facts: dict[JobId, JobFacts]
    ) -> list[Sequence[str]]:
        jobs = [j for j in self.run.backend.controller.jobs.values() if j.arrived]
        total = sum(r.weight for j in jobs for r in j.replicas.values())
        return [self._row(j, meter, now, total, facts.get(j.id)) for j in jobs]

    def _row(
        self,
        record: JobRecord,
        meter: UsageSampler,
        now: Seconds,
        total: float,
        facts: JobFacts | None,
    ) -> Sequence[str]:
        if not record.replicas:
            return (record.id, record.phase, record.reason[:60])
        replica = record.replicas.get(record.chief()) or next(iter(record.replicas.values()))
        seen = meter.latest.get(replica.id, ReplicaSample())
        share = (
            f"{replica.weight / total:.0%}" if replica.limit is None else f"≤{replica.limit:.2f}"
        )
        job = self.run.loop.state.jobs.get(record.id)
        return (
            record.id,
            record.phase,
            self._category(replica.id, now, job),
            share,
            f"{seen.cpu:.2f}{' throttled' if seen.throttled > 0.5 else ''}",
            f"{seen.memory / 2**20:.0f} MiB",
            steps(seen.step, record.spec.total_steps or seen.total),
            "" if seen.value is None else f"{seen.value:.4g}",
            sparkline(meter.values.get(replica.id, [])),
            eta(facts),
        )

    def _category(self, replica: ReplicaId, now: Seconds, job: Job | None) -> str:
        known = self.run.loop.state.replicas.get(replica)
        if known is None or job is None:
            return ""
        track, said = self._categories.get(replica, (None, ""))
        if track is not known.history:
            found = progress(known.history, now, INTERVAL, sign=job.spec.direction.sign)
            slow = Category.CONVERGED if found and found.growth < GROWING else Category.GROWING
            said = slow if found else ""
            self._categories[replica] = (known.history, said)
        return said


def laid_out(rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Rows as aligned lines, without the columns that do not fit; the last cell of a short row may
    be longer.
    """
    rows = [row if row is COLUMNS else [clean(cell) for cell in row] for row in rows]
    whole = [row for row in rows if len(row) == len(COLUMNS)]
    widths = [max(len(row[i]) for row in whole) for i in range(len(COLUMNS))]
    widths[:2] = [max(len(row[i]) for row in rows) for i in range(2)]
    kept = set(range(len(COLUMNS)))
    for column in OMITTED:
        if sum(widths[i] + 2 for i in kept) - 2 > width:
            kept.remove(column)
    lines = []
    for row in rows:
        cells = [
            cell.rjust(w) if i in RIGHT else cell.ljust(w)
            for i, (cell, w) in enumerate(zip(row, widths, strict=False))
            if i in kept or len(row) < len(COLUMNS)
        ]
        line = "  ".join(cells).rstrip()[:width]
        colour = "2" if row is COLUMNS else COLOURS.get(Phase(row[1]), "0")
        lines.append(_coloured(line, len(cells[0]) + 2, len(cells[1]), colour))
    return lines


def _coloured(line: str, at: int, length: int, colour: str) -> str:
    """Colour the phase; ended jobs and the header are dim."""
    if colour == "2":
        return f"\x1b[2m{line}\x1b[0m"
    return f"{line[:at]}\x1b[{colour}m{line[at : at + length]}\x1b[0m{line[at + length :]}"


def _interleaved(lines: Sequence[str], notes: Sequence[str], width: int) -> list[str]:
    """Lines with a dim note below each."""
    both = zip(lines, map(clean, notes), strict=True)
    return [
        x for line, n in both for x in (line, *([f"\x1b[2m   {n[: width - 3]}\x1b[0m"] * bool(n)))
    ]


def sparkline(values: Sequence[float]) -> str:
    """Values as one line of blocks.

    >>> sparkline([8, 7, 6, 5, 4, 3, 2, 1])
    '█▇▆▅▄▃▂▁'
    """
    if not values:
        return ""
    step = max(1, len(values) // SPARKS)
    shown = values[-1::-step][:SPARKS][::-1]
    low, high = min(shown), max(shown)
    scale = (len(BLOCKS) - 1) / (high - low) if high > low else 0.0
    return "".join(BLOCKS[round((v - low) * scale)] for v in shown)
