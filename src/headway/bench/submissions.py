"""Jobs that are submitted to a running server, under `headway` and under fair sharing, as real
processes.

A client submits 20 ordinary scripts over two minutes. Together they compute for about 300
core-seconds: more than two cores have in this time, so that the jobs must share them. Each prints
how many steps it will take. The sizes and the times are drawn once, and are the same in each run.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from time import monotonic, sleep
from typing import Any

from headway.bench import ordinary_script
from headway.bench.figure import Figure
from headway.bench.scripts import Times, compare, pair
from headway.bench.server import serving
from headway.client import Client
from headway.core.model.units import CoreSeconds, Seconds

JOBS = 20
PERIOD: Seconds = 120.0
SIZES: tuple[CoreSeconds, CoreSeconds] = (5.0, 25.0)
STYLES = ("epoch", "keras", "bar", "json")
"""Styles of output that say how many steps there will be."""
SEED = 23


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """A job, and when it is submitted."""

    at: Seconds
    name: str
    style: str
    steps: int

    @property
    def work(self) -> CoreSeconds:
        return self.steps * ordinary_script.CPU[self.style]

    @property
    def entry(self) -> dict[str, Any]:
        script = str(Path(ordinary_script.__file__))
        command = [sys.executable, "-S", script, self.style, str(self.steps)]
        return {"name": self.name, "spec": {"tasks": [{"command": command}]}}


def bench_submissions(
    pairs: int, jobs: int = JOBS, period: Seconds = PERIOD,
    sizes: tuple[CoreSeconds, CoreSeconds] = SIZES,
) -> list[Figure]:  # fmt: skip
    """`pairs`: runs under each policy, in turn."""
    drawn = draw(jobs, period, sizes)
    return compare([pair(partial(_run, drawn)) for _ in range(pairs)], most=0.75)


def draw(
    count: int, period: Seconds, sizes: tuple[CoreSeconds, CoreSeconds], seed: int = SEED
) -> list[Timed]:
    dice = Random(seed)
    times = sorted(dice.uniform(0, period) for _ in range(count))
    jobs = []
    for i, at in enumerate(times):
        style = dice.choice(STYLES)
        tens = dice.uniform(*sizes) / (10 * ordinary_script.CPU[style])  # `keras`: epochs of ten
        job = Timed(at=at, name=f"job-{i + 1}", style=style, steps=10 * max(1, round(tens)))
        jobs.append(job)
    return jobs


def _run(jobs: Sequence[Timed], policy: str, data: Path) -> Times:
    """Submit the jobs to a new server; return how long each took from its submission."""
    with serving(data, policy), Client.of(data) as client:
        try:
            began, ids = monotonic(), list[str]()
            for job in jobs:
                sleep(max(0.0, began + job.at - monotonic()))
                ids += client.submit([job.entry], directory=data)
            while client.page(state="active")[0]:
                sleep(1.0)
            ended = [client.job(name) for name in ids]
        finally:
            client.stop("stop")
    failed = [f"{job.job} {job.reason}" for job in ended if job.phase != "succeeded"]
    assert not failed, f"failed: {failed}"  # noqa: S101 - a wrong measurement
    return {
        job.name: found.finished_s - found.submitted_s
        for job, found in zip(jobs, ended, strict=True)
        if found.finished_s is not None
    }
