"""Run the same real jobs alternately under fair sharing and under another policy."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from importlib.resources import as_file, files
from math import inf
from os import environ, sched_getaffinity
from pathlib import Path
from statistics import median
from typing import Any

from headway import __version__
from headway.core.model.units import Seconds
from headway.report.comparison import describe_change, figure_notes, run_charts, summary_sections
from headway.report.page import Section, write_page
from headway.report.run_timeline import read_timeline
from headway.runtime.result import BAND, Result, against, is_slower, summarise
from headway.runtime.run import Run
from headway.runtime.run_directory import RunDirectory
from headway.runtime.start import begin
from headway.spec.arrivals import to_yaml
from headway.spec.catalogue import training_of
from headway.spec.load import read_workload
from headway.spec.runnable import POOLS
from headway.spec.workload import JobEntry, make_workload
from headway.trainings import UPDATES_PER_SECOND
from headway.trainings.probe import Speed

Watch = Callable[[Run], AbstractContextManager[Any]]
"""Displays a run; the context has a method `show`."""


def demo_workload() -> Path:
    with as_file(files("headway") / "data" / "demo.yaml") as path:
        return path


PROBE: Seconds = 2.0
"""Time in which the speed of the machine is measured."""
STARTUP: Seconds = 3.0
"""Time in a run for the start of its processes."""
ALONE: Seconds = 22.0
"""Time of a run on a machine that nobody else uses."""
LONGEST: Seconds = 35.0
"""Longest time of a run that is planned."""
MOST: Seconds = 75.0
"""Longest time of a pair of runs: two pairs take two and a half minutes."""


def measure_speed() -> Speed:
    """Return how fast this machine trains, as it is now. Another process measures it, because
    numpy reads the number of threads when it is imported.
    """
    command = [sys.executable, "-m", "headway.trainings.probe", str(PROBE)]
    single = {**environ, **dict.fromkeys(POOLS, "1")}
    done = subprocess.run(command, env=single, capture_output=True, text=True, check=True)
    return Speed(**json.loads(done.stdout))


def fit_workload(to: Path, speed: Speed) -> Seconds:
    """Write the demo's workload with as many steps as this machine makes in the planned time, fewer
    if other programs use the machine; return the time that a run will take.
    """
    workload = read_workload(demo_workload())
    work = sum(job.profile.work for job in workload.jobs if job.profile)
    time = min(LONGEST, ALONE / speed.share)
    part = (time * speed.share - STARTUP) / work
    jobs = tuple(_fitted(job, speed, max(0.1, part)) for job in workload.jobs)
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text(to_yaml(workload.model_copy(update={"jobs": jobs})))
    return time


def _fitted(job: JobEntry, speed: Speed, part: float) -> JobEntry:
    """Return a job with this part of its work."""
    if job.model is None or job.profile is None:
        return job
    training, _ = training_of(job.model, job.profile)
    faster = speed.updates[training] / UPDATES_PER_SECOND[training]
    steps = max(20, round(job.profile.steps * part * faster))
    work = job.profile.work * steps / job.profile.steps
    profile = job.profile.model_copy(update={"steps": steps, "work": work})
    return job.model_copy(update={"profile": profile})


DISTRIBUTED_POLICIES = ("spread", "dragon:starve_after=2,grow_after=2,restart=1", "headway")
USEFUL = 0.8
"""Part of its time in which a worker trains; otherwise it waits for the server and the others."""
NODES = 4
"""Virtual nodes of the demo of distributed jobs; a worker requests most of one."""


def fit_distributed(to: Path, speed: Speed) -> Seconds:
    """Write a workload of three distributed jobs, which fill the machine when two of them run;
    return the time that a run will take.
    """
    time = min(LONGEST, ALONE / speed.share)
    part = len(sched_getaffinity(0)) / NODES
    faster = speed.updates["cnn"] / UPDATES_PER_SECOND["cnn"]
    demand = min(1.0, part)
    # Without a change of workers, two jobs run at once and then the third, each with two workers.
    work = max(1.0, (time - STARTUP) / 2 * 2 * demand * USEFUL * speed.share * faster)
    profile = {"work": work, "steps": 200, "demand": demand}
    workers = {"replicas": 2, "min": 1, "max": NODES, "cpu": round(0.9 * part, 3)}
    jobs = [
        {"name": "first", "at": 0, "model": "ps-async", "workers": workers, "profile": profile},
        {"name": "second", "at": 1, "model": "ps-sync", "workers": workers, "profile": profile},
        {"name": "third", "at": 2, "model": "ps-sync", "workers": workers, "profile": profile},
    ]
    nodes = [{"name": "node", "cpu": part, "count": NODES}]
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text(to_yaml(make_workload(name="distributed", nodes=nodes, jobs=jobs)))
    return time


@dataclass(slots=True, kw_only=True)
class Progress:
    """Progress of the runs, and the remaining time."""

    runs: int
    each: Seconds
    """Expected time of a run; measured once one has ended."""
    done: int = -1
    now: Seconds = 0.0
    """Time in the present run."""
    _taken: Seconds = 0.0

    def next(self) -> None:
        """Another run begins."""
        self.done += 1
        self._taken += self.now
        self.now = 0.0
        if self.done:
            self.each = self._taken / self.done

    @property
    def left(self) -> Seconds:
        return max(0.0, self.each - self.now) + (self.runs - self.done - 1) * self.each

    def show(self, now: Seconds) -> str:
        """A bar with the time left, `now` seconds after the start of the present run.

        >>> progress = Progress(runs=4, each=30.0)
        >>> progress.next()
        >>> progress.show(15.0)
        '██▌·················  run 1 of 4, about 1:45 left'
        """
        self.now = now
        spent = self._taken + now
        eighths = round(8 * WIDTH * spent / (spent + self.left))
        full, part = divmod(eighths, 8)
        bar = "█" * full + " ▏▎▍▌▋▊▉"[part].strip()
        minutes, seconds = divmod(round(self.left), 60)
        left = f"about {minutes}:{seconds:02} left"
        return f"{bar.ljust(WIDTH, '·')}  run {self.done + 1} of {self.runs}, {left}"


WIDTH = 20
"""Characters of the progress bar."""


def run_once(
    workload: Path, policy: str, data: Path, watch: Watch | None = None
) -> tuple[Result, Run]:
    run = begin(read_workload(workload), workload, policy, data=data)
    with watch(run) if watch else nullcontext() as display:
        result = run.go(display.show) if display else run.go()
    if run.interrupted:
        raise KeyboardInterrupt
    return result, run


def alternate(
    workload: Path,
    policies: Sequence[str],
    pairs: int,
    data: Path,
    watch: Watch | None = None,
    *,
    most: Seconds = inf,
) -> tuple[list[list[Result]], list[list[RunDirectory]]]:
    """Run A B A B …; return the results and the run directories by policy. No further pair begins
    if that would take longer than `most` in all.
    """
    results: list[list[Result]] = [[] for _ in policies]
    folders: list[list[RunDirectory]] = [[] for _ in policies]
    for done in range(pairs):
        taken = sum(r.makespan_s for each in results for r in each)
        if done and taken * (done + 1) / done > most:
            break
        for i, policy in enumerate(policies):
            result, run = run_once(workload, policy, data, watch)
            folders[i].append(run.folder)
            results[i].append(result)
    return results, folders


def medians(results: Sequence[Result]) -> dict[str, float]:
    """Completion time of each job, median over the runs."""
    names = [j.name for j in results[0].per_job]
    times = [[j.completion_s for j in r.per_job] for r in results]
    return dict(zip(names, map(median, zip(*times, strict=True)), strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One result for each policy, by the median of each job over the runs, compared with the first
    policy. The table, the sentence and the page all show these figures.
    """

    typical: list[Result]
    noise: float | None
    """The largest relative difference of a job between two runs under the first policy."""
    taken: float
    """Fraction of the CPU that other programs took in a run, at worst."""

    @property
    def band(self) -> float:
        """Fraction, besides a second, by which a job must differ to count as faster or slower."""
        return max(BAND, self.noise or 0.0)

    @property
    def margin(self) -> str:
        """The band in words."""
        margin, policy = f"{self.band:.1%} + 1 s", self.typical[0].policy
        if self.noise is None:
            return margin
        return f"{margin} (noise band: runs under {policy} differ by up to {self.noise:.1%})"


def compare(results: Sequence[Sequence[Result]], *, fills: bool = True) -> Comparison:
    """`fills`: the jobs can use all their cores at any time: what `fair` and `headway` leave idle,
    other programs took.
    """
    first = results[0]
    times = zip(*([j.completion_s for j in r.per_job] for r in first), strict=True)
    spreads = [(max(t) - min(t)) / median(t) for t in times]
    noise = max(spreads) if len(first) > 1 else None
    typical = [_typical(r) for r in results]
    every = [x for r in results for x in r]
    if fills:
        whole = [x.utilization for x in every if x.policy in ("fair", "headway")]
        taken = 1 - min(whole, default=1.0)
    else:
        taken = max(x.foreign_cores for x in every) / len(sched_getaffinity(0))
    found = Comparison(typical=typical, noise=noise, taken=taken)
    return replace(found, typical=[against(r, typical[0], found.band) for r in typical])


def _typical(results: Sequence[Result]) -> Result:
    """The result in which each job takes the median of its completion times."""
    shown, times = results[median_run(results)], medians(results)
    jobs = tuple(replace(j, finished_s=j.submitted_s + times[j.name]) for j in shown.per_job)
    made = summarise(
        jobs, policy=shown.policy, backend=shown.backend, seed=0, used=0.0, capacity=1.0
    )
    return replace(made, utilization=median(r.utilization for r in results))


def describe(found: Comparison) -> str:
    """Each policy compared with the first, and whether other programs disturbed the runs."""
    pairs = [_describe(found, last) for last in found.typical[1:]]
    return " ".join(pairs) + _disturbed(found)


def _describe(found: Comparison, last: Result) -> str:
    """The change of the mean, the jobs that finish later, and the job that gains most."""
    first = found.typical[0]
    change = describe_change(last.mean_completion_s / first.mean_completion_s)
    pairs = list(zip(last.per_job, first.per_job, strict=True))
    late = [j.name for j, other in pairs if is_slower(j, other, found.band)]
    text = (
        f"Under {last.policy}, the {last.jobs} jobs finished {change} on average than under "
        f"{first.policy}, and {', '.join(late) or 'no job'} finished later by more than "
        f"{found.margin}."
    )
    best, other = min(pairs, key=lambda pair: pair[0].completion_s / pair[1].completion_s)
    if is_slower(other, best, found.band):
        times = f"{best.completion_s:.0f} s instead of {other.completion_s:.0f} s"
        text += f" {best.name} gained most: {times}."
    return text


DISTURBED = 0.15
"""Fraction of the CPU that other programs may take without a warning."""


def _disturbed(found: Comparison) -> str:
    if found.taken < DISTURBED:
        return ""
    return (
        f" Other programs took {found.taken:.0%} of the CPU in a run: the comparison is unreliable."
    )


def write_demo(
    to: Path,
    results: Sequence[Sequence[Result]],
    folders: Sequence[Sequence[RunDirectory]],
    workload: Path,
    *,
    fills: bool = True,
) -> None:
    found, runs = compare(results, fills=fills), len(results[0])
    table = [[r] for r in found.typical]
    notes = figure_notes(table, found.margin) + f" Medians of each job over {runs} runs." * (
        runs > 1
    )
    sections = summary_sections(table, found.typical, notes)
    for each, kept in zip(results, folders, strict=True):
        body = run_charts(read_timeline(kept[median_run(each)]))
        sections.append(Section(title=f"Under {each[0].policy}", body=body))
    which = f"{runs} runs of each; charts show the median run" if runs > 1 else "one run of each"
    made = f"Made by headway {__version__}: {workload.stem}, {which}."
    write_page(to, "Headway, measured on this machine", describe(found), sections, footer=made)


def median_run(results: Sequence[Result]) -> int:
    """The index of the run with the median mean completion."""
    order = sorted(range(len(results)), key=lambda i: results[i].mean_completion_s)
    return order[(len(order) - 1) // 2]
