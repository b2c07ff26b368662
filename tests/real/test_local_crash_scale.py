"""Headway is killed at every write while a distributed job grows and shrinks."""

import json
import os
import shutil
import signal
import subprocess
import sys
from random import Random

import pytest
from elastic import digests, spec, undisturbed, words
from local import groups, note, processes, result, workload
from patience import end_of

STEPS = 100
"""So many that the job does not end before it has shrunk, also on a busy machine."""
WRITES, STRIDE = 340, 61
"""More writes than an undisturbed run makes (249 to 315), and the distance of those that are tried
by default."""
BREATHE = '''
from headway.core.model.decision import Plan, Scale
from headway.core.model.serialization import memory, record
from headway.core.model.units import ReplicaId
from headway.policy.registry import POLICIES, Entry

@memory
class Done:
    grown: bool = False
    shrunk: bool = False

def runs(replicas):
    return all(r.phase.value == "running" for r in replicas.values())

@record
class Breathe:
    """Adds a worker to the job, and later removes it."""
    name: str = "breathe"
    listens: bool = True
    def begin(self): return Done()
    def decide(self, snapshot, memory):
        found, extra = [], ReplicaId.of("x", "worker", 1)
        there = {r.id: r for r in snapshot.of("x")}
        step = max((r.history.step or 0 for r in there.values()), default=0)
        alone = extra not in there or there[extra].node is None
        if step >= 3 and not memory.grown and alone:
            memory.grown = True
            found.append(Scale(job="x", task="worker", add=((extra, "b"),), reason="grow"))
        elif memory.grown and not memory.shrunk and not alone and runs(there):
            memory.shrunk = True
            found.append(Scale(job="x", task="worker", remove=(extra,), reason="shrink"))
        return Plan(decisions=tuple(found), wake_after=0.2, look=tuple(snapshot.nodes)), memory

POLICIES["breathe"] = Entry(Breathe, "placement", "for tests")
from headway.cli import main
main()
'''


def headway(data, *given, env=None):
    script = data / "breathe.py"
    script.write_text(BREATHE)
    child = subprocess.Popen(
        [sys.executable, str(script), *map(str, given)],
        env={**os.environ, "HEADWAY_DATA": str(data), **(env or {})},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    return end_of(child)


def crashed(data, model, n):
    """One run with a crash at its n-th write, taken up again; did it come to the crash?"""
    elastic = "independent" if model == "ps-async" else "restart"
    job = {"name": "x", "spec": spec(words(model, steps=STEPS), elastic=elastic)}
    path = workload(data, job, nodes=[{"name": name, "cpu": 0.5} for name in "ab"])
    env = {"HEADWAY_CRASH_AFTER_WRITES": str(n)}
    done = headway(data, "run", path, "--policy", "breathe+gang", env=env)
    dead = done.returncode == -signal.SIGKILL
    if dead:
        again = headway(data, "run", "--resume", "latest")
        if again.returncode and "has ended" not in again.stderr:
            # It died before there was a run to resume.
            early = "no run is called" in again.stderr or "workload.yaml" in again.stderr
            assert early, (n, again.stderr)
            assert processes(data) == []
            return True
    found = result(data)
    assert [j["outcome"] for j in found["per_job"]] == ["succeeded"], (n, found["reasons"])
    log = next(data.glob("runs/2*/jobs/x/worker-0/out.log")).read_text()
    same = digests(log)[1:] if model == "ps-async" else digests(log)
    assert same == undisturbed(STEPS)[-len(same) :], n
    assert processes(data) == [], n
    assert groups(data) == [], n
    return dead


def scales(data):
    """Whether each change of size adds or removes a worker."""
    lines = next(data.glob("runs/2*/journal.jsonl")).read_text().splitlines()
    made = [d for x in lines for d in json.loads(x).get("plan", {}).get("decisions", ())]
    return ["add" if d.get("add") else "remove" for d in made if d["is"] == "Scale"]


def drawn_points(model):
    """HEADWAY_CRASH_SAMPLE=COUNT:PART: so many writes, others for each part; all parts together are
    every write.
    """
    count, _, part = os.environ.get("HEADWAY_CRASH_SAMPLE", "0:0").partition(":")
    every = Random(model).sample(range(1, WRITES), WRITES - 1)
    return every[int(count) * int(part) :][: int(count)]


@pytest.mark.long
@pytest.mark.parametrize("model", ["ps-sync", "ps-async"])
def test_after_a_crash_anywhere_while_a_job_grows_and_shrinks_every_sample_counts_once(
    tmp_path, model
):
    """HEADWAY_CRASH_AFTER_WRITES = 40, 101, 162, … until a run completes undisturbed; or writes
    drawn at random.
    """
    crashes, sample = 0, drawn_points(model)
    for n in sample or range(40, 2000, STRIDE):
        data = tmp_path / str(n)
        data.mkdir()
        if crashed(data, model, n):
            crashes += 1
            shutil.rmtree(data)
        elif not sample:
            break
    note(f"crash points, {model}", crashes)
    if sample:
        return
    assert crashes * STRIDE >= 100
    assert scales(data) == ["add", "remove"], "undisturbed, it grows and shrinks"
    records = next(data.glob("runs/2*/records/x/worker-1"))
    assert len(list(records.glob("claim.*"))) == 1
