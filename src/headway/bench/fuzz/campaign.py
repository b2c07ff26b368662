"""Run mutated input through the functions of Headway, or through its command, in worker processes.

    python -m headway.bench.fuzz.campaign SEED FIRST LAST [command]

Each case depends only on the seed and its number, so that one can be repeated alone.
"""

import json
import os
import resource
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from random import Random
from time import process_time
from typing import Any

from headway.bench.fuzz.targets import Target, targets
from headway.errors import HeadwayError

STEP_S, MEMORY_MB = 1.0, 500.0
"""Bars: CPU time of one case, and memory of a process."""
HANGS_S = 60.0
"""Time of day after which a case counts as hanging, on a machine that others use too."""
FILES = {"report": "job/reports.jsonl", "log": "job/out.log", "request": "run/requests/1.json"}
"""Path of the input of a target in its folder; default: the folder itself."""
SHOWN = 20
WARM = ("headway.cli", "headway.cli.output", "headway.report.simulation")
"""Imported once, before the children that run the command are forked."""


@dataclass(slots=True)
class Found:
    """Findings of a number of cases."""

    cases: int = 0
    refused: int = 0
    slowest_s: float = 0.0
    memory_mb: float = 0.0
    failures: list[str] = field(default_factory=list)

    def add(self, other: "Found") -> None:
        self.cases += other.cases
        self.refused += other.refused
        self.slowest_s = max(self.slowest_s, other.slowest_s)
        self.memory_mb = max(self.memory_mb, other.memory_mb)
        self.failures += other.failures

    @property
    def passed(self) -> bool:
        return not self.failures and self.slowest_s <= STEP_S and self.memory_mb <= MEMORY_MB


class _Hangs(BaseException):
    pass


def campaign(
    seed: str, cases: int, commands: int, *, workers: int = 4, chunk: int = 2000, done: str = ""
) -> tuple[Found, Found]:
    """Return what `cases` cases through functions, and `commands` through the command, showed.
    `done`: a file for what has been run, so that an interrupted campaign continues.
    """
    jobs = [(a, min(a + chunk, cases), False) for a in range(0, cases, chunk)]
    few = max(1, chunk // 20)
    jobs += [(a, min(a + few, commands), True) for a in range(0, commands, few)]
    both = Found(), Found()
    with ThreadPoolExecutor(workers) as pool:
        for (_, _, through), found in zip(
            jobs, pool.map(lambda job: _once(done, seed, *job), jobs), strict=True
        ):
            both[through].add(found)
    return both


def _once(done: str, seed: str, *job: Any) -> Found:
    """Run the cases, unless that has been done."""
    key = json.dumps([seed, *job])
    before = Path(done).read_text().splitlines() if done and Path(done).exists() else []
    for line in before:
        if line.startswith(f"{key}\t"):
            return Found(**json.loads(line.partition("\t")[2]))
    found = _worker(seed, *job)
    if done:
        with Path(done).open("a") as file:
            file.write(f"{key}\t{json.dumps(asdict(found))}\n")
    return found


def _worker(seed: str, first: int, last: int, through: bool) -> Found:
    words = [seed, str(first), str(last), *["command"] * through]
    done = subprocess.run(
        [sys.executable, "-m", "headway.bench.fuzz.campaign", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        return Found(**json.loads(done.stdout.splitlines()[-1]))
    except (ValueError, IndexError):  # for example a stack that overflowed in C
        why = f"cases {first} to {last}: exit code {done.returncode}: {done.stderr[-500:]}"
        return Found(cases=last - first, failures=[why])


def run_cases(seed: str, first: int, last: int, *, through: bool) -> Found:
    found = Found()
    with tempfile.TemporaryDirectory() as folder:
        all_ = targets(Path(folder))
        if through:
            all_ = [t for t in all_ if t.command]
            for name in WARM:
                import_module(name)
        for number in range(first, last):
            dice = Random(f"{seed}/{through}/{number}")
            target = dice.choices(all_, [t.part for t in all_])[0]
            path = Path(folder) / FILES.get(target.name, f"{target.name}.input")
            path.parent.mkdir(parents=True, exist_ok=True)
            text = target.mutate(dice, target.seeds)
            path.write_bytes(text.encode(errors="surrogatepass"))
            why = (_through if through else _in_process)(target, path, dice, found)
            found.cases += 1
            if why and len(found.failures) < SHOWN:
                found.failures.append(f"{seed} {number} {target.name}: {why}"[:600])
    kind = resource.RUSAGE_CHILDREN if through else resource.RUSAGE_SELF
    found.memory_mb = resource.getrusage(kind).ru_maxrss / 1024
    return found


def _in_process(target: Target, path: Path, dice: Random, found: Found) -> str:
    """Run a case. Return why it fails; "": it does not."""
    began = process_time()
    try:
        with _watchdog():
            target.check(path, dice)
    except HeadwayError as error:
        found.refused += 1
        if error.exit_code != 2 or not error.where or len(str(error)) > 4000:
            return f"exit code {error.exit_code}, where {error.where!r}: {error.message[:300]}"
    except _Hangs:
        return f"hangs for {HANGS_S:.0f} s"
    except Exception as error:  # noqa: BLE001 - the purpose: any other exception is a defect
        return _describe(error)
    finally:
        took = process_time() - began
        found.slowest_s = max(found.slowest_s, took)
    return f"took {took:.1f} s" if took > STEP_S else ""


def _describe(error: Exception) -> str:
    """The exception, and the last lines of Headway that it passed."""
    lines, trace = [], error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        lines.append(f"{Path(code.co_filename).name}:{trace.tb_lineno}")
        trace = trace.tb_next
    return f"{type(error).__name__}: {str(error)[:200]} at {' '.join(lines[-4:])}"


@contextmanager
def _watchdog() -> Iterator[None]:
    def ring(*_: object) -> None:
        raise _Hangs

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, HANGS_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _through(target: Target, path: Path, dice: Random, found: Found) -> str:
    """Run the command in a child; it does not have to be imported each time."""
    assert target.command is not None  # noqa: S101 - chosen so
    words, output = target.command(path, dice), path.with_name("output")
    child = os.fork()
    if child == 0:
        _child(words, output)
    hangs = ""
    try:
        with _watchdog():
            _, status, used = os.wait4(child, 0)
    except _Hangs:
        os.kill(child, signal.SIGKILL)
        _, status, used = os.wait4(child, 0)
        hangs = f"hangs for {HANGS_S:.0f} s"
    took = used.ru_utime + used.ru_stime
    found.slowest_s = max(found.slowest_s, took)
    said = output.read_text(encoding="utf-8", errors="replace")
    code = os.waitstatus_to_exitcode(status)
    found.refused += code == 2
    what = f"{' '.join(words[:2])}: exit code {code}: {said[-300:]!r}"
    if hangs or took > STEP_S:
        return f"{hangs or f'took {took:.1f} s'}: {what}"
    known = code in (0, 2) or (code == 1 and words[0] == "replay")
    placed = code != 2 or "  where: " in said
    return "" if known and placed and "Traceback" not in said else what


def _child(words: list[str], output: Path) -> None:
    code: Any = 70
    with suppress(BaseException):
        file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, 1)
        os.dup2(file, 2)
        sys.argv = ["headway", *words]
        code = _status()
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _status() -> int:
    try:
        runpy.run_module("headway", run_name="__main__")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    except BaseException:  # noqa: BLE001 - as the interpreter does
        sys.excepthook(*sys.exc_info())
        return 70
    return 0


if __name__ == "__main__":
    _seed, _first, _last, *_how = sys.argv[1:]
    _found = run_cases(_seed, int(_first), int(_last), through=bool(_how))
    sys.stdout.write(json.dumps(asdict(_found)) + "\n")
