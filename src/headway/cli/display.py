"""The live display of a run: one row a job, drawn anew once a second."""

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from headway.core.category import Category
from headway.core.job import Job, Phase
from headway.core.progress import progress
from headway.core.units import Seconds
from headway.runtime.meter import Meter, Now
from headway.runtime.run import Run

BLOCKS = "▁▂▃▄▅▆▇█"
INTERVAL: Seconds = 10.0
"""Over which a job's growth is judged for the display."""
COLOURS = {
    Phase.RUNNING: "green", Phase.WAITING: "yellow", Phase.SUCCEEDED: "dim",
    Phase.FAILED: "red", Phase.CANCELLED: "red",
}  # fmt: skip


class Display:
    """Rows on a terminal; on anything else, a line when something ends."""

    def __init__(self, run: Run, *, quiet: bool = False) -> None:
        from rich.console import Console

        self.run, self.quiet = run, quiet
        self.console = Console(stderr=True)
        self._live: Any = None
        self._told: set[str] = set()

    def __enter__(self) -> Self:
        if not self.quiet:
            self._say_how()
        if not self.quiet and self.console.is_terminal:
            from rich.live import Live

            self._live = Live(console=self.console, auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live:
            self._live.stop()
        if kind is None:
            self._tell_ends()

    def _say_how(self) -> None:
        from headway.backend.local.enforcement import ABOUT

        r = self.run
        how = ABOUT[r.backend.enforcement.name]
        jobs = len(r.backend.works)
        line = f"run {r.folder.id}: {jobs} jobs under {r.policy}, shares by {how}"
        self.console.print(line, highlight=False)
        if r.factor < 1:
            self.console.print(
                f"the workload asks for more CPU than this machine has: every node is scaled to "
                f"{r.factor:.2f} of it",
                highlight=False,
            )

    def show(self, meter: Meter, now: Seconds) -> None:
        if self._live:
            self._live.update(self._table(meter, now), refresh=True)
        elif not self.quiet:
            self._tell_ends()

    def _tell_ends(self) -> None:
        for work in self.run.backend.finished:
            if work.id not in self._told:
                self._told.add(work.id)
                if not self._live:
                    why = f": {work.reason}" if work.reason else ""
                    took = (work.finished_at or 0.0) - work.job.at
                    self.console.print(
                        f"{work.id} {work.phase} after {took:.1f} s{why}",
                        highlight=False,
                        markup=False,
                    )

    def _table(self, meter: Meter, now: Seconds) -> Any:
        from rich.table import Table

        done = len(self.run.backend.finished)
        table = Table(
            box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim",
            title=f"{now:.0f} s · {done} of {len(self.run.backend.works)} done",
            title_justify="left",
        )  # fmt: skip
        for name in ("job", "", "category", "share", "cores", "memory", "step", "loss", "", "ETA"):
            right = name in ("share", "cores", "memory", "step", "loss", "ETA")
            table.add_column(name, justify="right" if right else "left", no_wrap=True)
        for row in self._rows(meter, now):
            table.add_row(*row)
        return table

    def _rows(self, meter: Meter, now: Seconds) -> Sequence[list[str]]:
        from rich.markup import escape

        rows = []
        weights = [m.weight for m in self.run.backend.members.values()]
        for work in self.run.backend.works.values():
            if work in self.run.backend.coming:
                continue
            head = [escape(work.id), f"[{COLOURS.get(work.phase, '')}]{work.phase}[/]"]
            if not work.members:
                rows.append([*head, *[""] * 7, escape(work.reason)[:40]])
                continue
            m = next(iter(work.members.values()))
            seen = meter.now.get(m.id, Now())
            share = f"{m.weight / sum(weights):.0%}"
            if m.limit is not None:
                share = f"≤{m.limit:.2f}"
            job = self.run.loop.history.jobs.get(work.id)
            rows.append([
                *head,
                self._category(m.id, now, job),
                share,
                f"{seen.cpu:.2f}" + (" throttled" if seen.throttled > 0.5 else ""),
                f"{seen.memory / 2**20:.0f} MiB",
                _steps(seen, work.spec.total_steps),
                "" if seen.value is None else f"{seen.value:.4g}",
                sparkline(meter.said.get(m.id, [])),
                _eta(job, seen),
            ])  # fmt: skip
        return rows

    def _category(self, replica: Any, now: Seconds, job: Job | None) -> str:
        known = self.run.loop.history.replicas.get(replica)
        if known is None or job is None:
            return ""
        found = progress(known.track, now, INTERVAL, sign=job.spec.direction.sign)
        if found is None:
            return ""
        return str(Category.GROWING if found.growth >= 0.05 else Category.CONVERGED)


def _steps(seen: Now, total: float | None) -> str:
    if seen.step is None:
        return ""
    return f"{seen.step:g}/{total:g}" if total else f"{seen.step:g}"


def _eta(job: Job | None, seen: Now) -> str:
    """At its present rate."""
    if job is None or job.remaining is None or seen.cpu < 0.01:
        return ""
    return f"{job.remaining.value / seen.cpu:.0f} s"


def sparkline(values: Sequence[float], width: int = 16) -> str:
    """The course of a value in one line of blocks.

    >>> sparkline([8, 7, 6, 5, 4, 3, 2, 1])
    '█▇▆▅▄▃▂▁'
    """
    if not values:
        return ""
    step = max(1, len(values) // width)
    shown = values[-1::-step][:width][::-1]
    low, high = min(shown), max(shown)
    scale = (len(BLOCKS) - 1) / (high - low) if high > low else 0.0
    return "".join(BLOCKS[round((v - low) * scale)] for v in shown)
