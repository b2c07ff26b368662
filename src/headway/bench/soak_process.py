"""The Headway process of a soak: a run that also measures itself, once a minute.

    python -m headway.bench.soak_process DATA WORKLOAD SECONDS     begin, or
    python -m headway.bench.soak_process DATA resume SECONDS       continue after a kill

Each sample is a line of DATA/soak.jsonl: memory, descriptors, bytes on disk, jobs that have ended,
and the duration of every cycle and every fsync since the last line.
"""

import json
import os
import sys
from pathlib import Path
from time import monotonic, time

from headway.core.model.snapshot import Trigger
from headway.core.model.units import Seconds
from headway.runtime.run import Run
from headway.runtime.run_directory import RunDirectory
from headway.runtime.start import RunOptions, start_run
from headway.runtime.usage_sampler import UsageSampler

SAMPLES = "soak.jsonl"


class Recorder:
    """Measures a run, and writes a sample every so many seconds."""

    def __init__(self, path: Path, every: Seconds) -> None:
        self._path, self._every = path, every
        self._cycles: list[float] = []
        self._syncs: list[float] = []
        self._due = monotonic()

    def watch(self, run: Run) -> None:
        """Measure the duration of each cycle and each fsync from now on."""
        step, fsync = run.loop.step, os.fsync

        def timed_step(trigger: Trigger) -> Seconds | None:
            began = monotonic()
            try:
                return step(trigger)
            finally:
                self._cycles.append(monotonic() - began)

        def timed_fsync(file: int) -> None:
            began = monotonic()
            fsync(file)
            self._syncs.append(monotonic() - began)

        run.loop.step = timed_step  # type: ignore[method-assign]
        os.fsync = timed_fsync  # type: ignore[assignment]

    def sample(self, run: Run) -> None:
        if monotonic() < self._due:
            return
        self._due = monotonic() + self._every
        cycles, self._cycles = self._cycles, []
        syncs, self._syncs = self._syncs, []
        line = {
            "at": time(),
            "ended": sum(job.phase.ended for job in run.backend.controller.jobs.values()),
            "rss_mb": _resident() / 1e6,
            "descriptors": len(list(Path("/proc/self/fd").iterdir())),
            "journal_bytes": _size(run.folder, "journal*.jsonl"),
            "usage_bytes": _size(run.folder, "usage*.jsonl"),
            "cycles_ms": [round(1000 * c, 1) for c in cycles],
            "syncs_ms": [round(1000 * s, 1) for s in syncs],
        }
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _size(folder: RunDirectory, pattern: str) -> int:
    return sum(path.stat().st_size for path in folder.path.glob(pattern))


def main(data: Path, workload: str, every: Seconds) -> None:
    resumed = workload == "resume"
    options = RunOptions(resume="latest") if resumed else RunOptions(workload=Path(workload))
    run = start_run(options, data)
    recorder = Recorder(data / SAMPLES, every)
    recorder.watch(run)

    def then(meter: UsageSampler, now: Seconds) -> None:
        del meter, now
        recorder.sample(run)

    run.go(then)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
