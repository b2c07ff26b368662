"""What is fuzzed: seeds, how they are mutated, and the functions that the commands call on them."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from headway.backend.inbox import Inbox
from headway.bench.fuzz.mutate import Mutation, json_lines_of, lines_of, yaml_of
from headway.bench.fuzz.seeds import CLUSTER_ONLY, LOGS, MANIFEST, REPORTS, TRACES, WORKLOADS
from headway.core.model.serialization import to_json
from headway.core.model.snapshot import Request
from headway.core.model.units import JobId, NodeId
from headway.errors import ConfigError
from headway.metrics.reader import MetricsReader
from headway.report.explain import explain_job
from headway.runtime import journal
from headway.runtime.last_reports import reported
from headway.runtime.replay import replay_journal
from headway.sim.build import to_scenario
from headway.sim.compare import run_all
from headway.sim.trace_import import FORMATS, Cluster, read_trace
from headway.spec.arrivals import expand, to_yaml
from headway.spec.load import read_manifest, read_workload
from headway.spec.platform_features import LIVE_FEATURES
from headway.spec.runnable import to_jobs
from headway.spec.workload import make_workload

PATTERNS = (None, None, r"acc=(?P<value>\S+) at (?P<step>\d+)", "(a|b)*a(a|b){60}(c)?", r"(\d+)")
REQUESTS = tuple(
    to_json(Request(job=JobId("j1"), wish=wish, to=NodeId("b") if wish == "move" else None))
    for wish in ("move", "pause", "resume")
)
MOST_JOBS, MOST_NODES = 300, 50
"""Generated jobs and nodes up to which a workload is also expanded and simulated."""

Check = Callable[[Path, Random], None]


@dataclass(frozen=True, slots=True)
class Target:
    name: str
    seeds: Sequence[Any]
    mutate: Mutation
    check: Check
    part: float
    """Fraction of all cases."""
    command: Callable[[Path, Random], list[str]] | None = None
    """The command that reads it; None: only a live run reads it."""


def prepare(folder: Path) -> None:
    """Write the files that workloads name, and journals to mutate."""
    portable = {
        key: value for key, value in MANIFEST["spec"].items() if key != "activeDeadlineSeconds"
    }
    (folder / "job.yaml").write_text(json.dumps({**MANIFEST, "spec": portable}))
    (folder / "loss.csv").write_text("step,loss\n1,0.9\n50,0.3\n100,0.2\n")


def journals(folder: Path) -> list[str]:
    """Journals of two short simulations."""
    found = []
    for policy in ("headway", "flowcon"):
        jobs = [
            {"name": f"j{i}", "at": 2 * i, "profile": {"work": 4, "steps": 20}} for i in range(3)
        ]
        nodes = [{"name": "a"}, {"name": "b"}]
        path = folder / f"{policy}.jsonl"
        run_all(to_scenario(make_workload(jobs=jobs, nodes=nodes)), [policy], journal=path)
        found.append("".join(path.read_text(encoding="utf-8").splitlines(keepends=True)[:12]))
    return found


def workload(path: Path, dice: Random) -> None:
    """As `workload expand`, `simulate` up to the first event, and `run` up to the first process."""
    del dice
    read = read_workload(path)
    few = (read.arrivals.jobs or 0) if read.arrivals else 0
    if few > MOST_JOBS or len(read.to_nodes()) > MOST_NODES:
        return
    to_yaml(expand(read, where=str(path)))
    for use in (
        lambda: to_scenario(read, path=path),
        lambda: to_jobs(expand(read, where=str(path)), path, supported=LIVE_FEATURES),
    ):
        try:
            use()
        except ConfigError as error:
            if not error.where:
                raise


def trace(path: Path, dice: Random) -> None:
    read_trace(path, dice.choice(list(FORMATS)), Cluster(nodes=dice.choice((2, 128))))


def report(path: Path, dice: Random) -> None:
    _read(MetricsReader(path.parent, dice.choice(("loss", "accuracy")), back=2**30), path)


def log(path: Path, dice: Random) -> None:
    reader = MetricsReader(path.parent, "loss", dice.choice(PATTERNS), log=path, back=2**30)
    _read(reader, path)


def _read(reader: MetricsReader, path: Path) -> None:
    """All that is there, then what is appended."""
    reader.listen()
    with path.open("ab") as file:
        file.write(b'{"step": 1, "loss": 2}\nloss: 1 step 5/10\n')
    reader.listen()
    to_json([reader.step, reader.total, reader.found, reader.report().trouble])
    reader.close()


def old_journal(path: Path, dice: Random) -> None:
    """As `explain` and `replay`; and as `run --resume`, which completes the last line."""
    way = dice.randrange(3)
    if way == 0:
        explain_job(path, "j1")
    elif way == 1:
        replay_journal(path, dice.choice(("", "fair")))
    else:
        journal.repair(path)
        reported(journal.read(path))


def request(path: Path, dice: Random) -> None:
    del dice
    for found in Inbox(path.parent.parent).new():
        to_json(found)


def targets(folder: Path) -> list[Target]:
    prepare(folder)
    return [
        Target("workload", WORKLOADS, yaml_of, workload, 0.25, _simulate),
        Target("manifest", (MANIFEST, CLUSTER_ONLY), yaml_of, _manifest, 0.1, _expand),
        Target("trace", TRACES, lines_of, trace, 0.15, _trace),
        Target("report", REPORTS, json_lines_of, report, 0.15),
        Target("log", LOGS, lines_of, log, 0.2),
        Target("journal", journals(folder), json_lines_of, old_journal, 0.1, _explain),
        Target("request", REQUESTS, json_lines_of, request, 0.05),
    ]


def _manifest(path: Path, dice: Random) -> None:
    read_manifest(path)
    workload(path, dice)


def _simulate(path: Path, dice: Random) -> list[str]:
    del dice
    return ["simulate", str(path), "--policy", "fair"]


def _expand(path: Path, dice: Random) -> list[str]:
    del dice
    return ["workload", "expand", str(path)]


def _trace(path: Path, dice: Random) -> list[str]:
    return ["simulate", "--trace", str(path), "--format", dice.choice(list(FORMATS)), "-p", "fifo"]


def _explain(path: Path, dice: Random) -> list[str]:
    return dice.choice((["explain", "j1", "--run", str(path)], ["replay", str(path)]))
