"""Seven ordinary scripts under `headway` and under fair sharing, as real processes.

Four of them print how many steps they will take. The variants: alone on the machine, beside a
foreign process, with interruptions, and again with what an earlier run has shown.

Each script can use two cores. If each could use only one, two jobs of known size could not be put
in order beside jobs of unknown size: if the others ended, the second would have a core of its own
under fair sharing, and could not catch up. The simulator predicts 0.92 for `headway` then, and 0.87
here.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean, median
from time import monotonic, sleep
from typing import Any

from headway.bench import ordinary_script
from headway.bench.figure import Figure
from headway.core.model.units import Seconds
from headway.runtime.earlier_runs import EarlierRuns
from headway.spec.arrivals import to_yaml
from headway.spec.workload import make_workload

ARRIVALS = {"epoch": 0, "hf": 1, "accuracy": 2, "keras": 3, "silent": 4, "bar": 5, "json": 8}
COMMAND = (sys.executable, "-m", "headway")
PAIRS = 5
"""Runs under each policy, in turn."""
HALF_A_CORE = """
import time
while True:
    end = time.monotonic() + 0.5
    while time.monotonic() < end: pass
    time.sleep(0.5)
"""
INTERRUPTIONS: tuple[tuple[Seconds, tuple[str, ...]], ...] = (
    (6, ("pause", "epoch")),
    (8, ("pause", "hf")),
    (12, ("resume", "epoch")),
    (14, ("resume", "hf")),
    (17, ("move", "accuracy")),
    (22, ("kill",)),
)
"""Interruptions of a run, with their times."""
Times = dict[str, Seconds]
"""Completion time of each job."""


def bench_scripts() -> list[Figure]:
    """Alone on the machine."""
    return compare([pair(_undisturbed) for _ in range(PAIRS)])


def bench_scripts_foreign() -> list[Figure]:
    """Beside a foreign process that uses a core half of the time."""
    foreign = subprocess.Popen([sys.executable, "-S", "-c", HALF_A_CORE])
    try:
        return bench_scripts()
    finally:
        foreign.kill()
        foreign.wait()


def bench_scripts_interrupted() -> list[Figure]:
    """On two nodes; two jobs are paused and resumed, one is moved, and Headway is killed once."""
    return compare([pair(_interrupted) for _ in range(PAIRS)])


def bench_scripts_again() -> list[Figure]:
    """With the sizes that an earlier run of the same scripts has shown."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        _undisturbed("headway", data)
        errors = _size_errors(data)
        runs = [pair(lambda policy, _: _undisturbed(policy, data)) for _ in range(PAIRS)]
    figures = compare(runs, most=0.75)
    return [*figures, Figure("sizes from memory, largest error", max(errors), "", 0.2)]


def _size_errors(data: Path) -> list[float]:
    """Errors of the remembered sizes, relative to the CPU time that the scripts compute."""
    known = {k.command.split()[-1]: k.work for k in EarlierRuns(data).read().values()}
    steps, cpu = ordinary_script.STEPS, ordinary_script.CPU
    return [abs(known.get(s, 0.0) / (steps[s] * cpu[s]) - 1) for s in ARRIVALS]


# -- runs ----------------------------------------------------------------------------------------


def pair(measure: Callable[[str, Path], Times]) -> tuple[Times, Times]:
    """Run under `fair` and under `headway`, each with a new data directory."""
    with tempfile.TemporaryDirectory() as a, tempfile.TemporaryDirectory() as b:
        return measure("fair", Path(a)), measure("headway", Path(b))


def _undisturbed(policy: str, data: Path) -> Times:
    with _running(data, str(_workload(data)), "--policy", policy) as child:
        return _times(child)


def _interrupted(policy: str, data: Path) -> Times:
    nodes = [{"name": name, "cpu": 1} for name in ("a", "b")]
    path = _workload(data, nodes=nodes, checkpoint={"mode": "sigterm"})
    with _running(data, str(path), "--policy", policy) as child:
        began = monotonic()
        for at, (verb, *job) in INTERRUPTIONS:
            sleep(max(0.0, began + at - monotonic()))
            if verb == "kill":
                child.kill()
            elif verb == "move":  # it is on one of the nodes: one of the two requests is refused
                done = [_ask(data, verb, *job, "--to", node) for node in ("a", "b")]
                assert any(done), "the job was not moved"  # noqa: S101 - a wrong measurement
            else:
                assert _ask(data, verb, *job), f"{verb} was refused"  # noqa: S101
    with _running(data, "--resume", "latest") as child:
        return _times(child)


def _workload(data: Path, checkpoint: dict[str, str] | None = None, **more: Any) -> Path:
    script = str(Path(ordinary_script.__file__))
    jobs = [
        {
            "name": style,
            "at": at,
            "spec": {
                "tasks": [{"command": [sys.executable, "-S", script, style]}],
                **({"checkpoint": checkpoint} if checkpoint else {}),
            },
        }
        for style, at in ARRIVALS.items()
    ]
    path = data / "scripts.yaml"
    path.write_text(to_yaml(make_workload(jobs=jobs, **more)))
    return path


@contextmanager
def _running(data: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    command = [*COMMAND, "run", *words, "--data", str(data), "--json"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield child
    finally:
        child.terminate()
        child.wait()


def _ask(data: Path, *words: str) -> bool:
    """Return whether the request was accepted."""
    done = subprocess.run([*COMMAND, *words, "--data", str(data)], capture_output=True, check=False)
    return done.returncode == 0


def _times(child: subprocess.Popen[str]) -> Times:
    (result,) = json.loads(child.communicate()[0])
    failed = [j["name"] for j in result["per_job"] if j["outcome"] != "succeeded"]
    assert not failed, f"failed: {failed}"  # noqa: S101 - a wrong measurement
    return {j["name"]: j["finished_s"] - j["submitted_s"] for j in result["per_job"]}


# -- figures -------------------------------------------------------------------------------------


def compare(runs: Sequence[tuple[Times, Times]], most: float = 0.90) -> list[Figure]:
    """Medians of each job. The noise band: how far a run under `fair` is above its median."""
    fair = {name: median(a[name] for a, _ in runs) for name in runs[0][0]}
    ours = {name: median(b[name] for _, b in runs) for name in fair}
    ratios = {name: ours[name] / fair[name] for name in fair}
    band = max(max(a[name] for a, _ in runs) / fair[name] - 1 for name in fair)
    return [
        Figure("mean completion against fair", fmean(ours.values()) / fmean(fair.values()), "x",
               most),
        Figure("noise band of a job under fair", band, ""),
        Figure("slowest job against fair, beyond the band", max(ratios.values()) - 1 - band, "", 0),
        *(Figure(f"{name} against fair", ratio, "x") for name, ratio in ratios.items()),
    ]  # fmt: skip
