"""Moves and suspends of real processes: bit for bit, through bad saves, and through crashes."""

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
from time import monotonic

import pytest
from live_hands import LiveHands
from local import groups, note, processes, result
from patience import end_of

from headway.backend.clock import Clock
from headway.backend.cpu_partition import Cut
from headway.backend.local.enforcement.select import choose
from headway.backend.local.platform import LocalPlatform
from headway.core.model.decision import Move, Place, Refused, Started, Suspend
from headway.core.model.job import JobSpec, Mode, Phase
from headway.core.model.units import ReplicaId
from headway.spec.runnable import Command, RunnableJob
from making import node

CHECKPOINTS = """
import sys, time, headway.sdk as sdk
run = sdk.attach()
step = run.latest.step if run.latest else 0
while True:
    step += 1
    time.sleep(0.01)
    run.report(step, loss=1 / step)
    if run.should_checkpoint():
        run.save(step, write)
"""
BY_SIGNAL = """
import os, pathlib, signal, sys, time
there = pathlib.Path(os.environ["HEADWAY_CHECKPOINT_DIR"]) / "step"
step = int(there.read_text()) if there.exists() else 0
def leave(number, frame):
    there.write_text(str(step))
    sys.exit(143)
signal.signal(signal.SIGTERM, leave)
while True:
    step += 1
    print("step", step, "loss", 1 / step, flush=True)
    time.sleep(0.01)
"""
DEAF = BY_SIGNAL.replace(
    "signal.signal(signal.SIGTERM, leave)", "signal.signal(15, signal.SIG_IGN)"
)


class Hands(LiveHands):
    """Two nodes and one job, driven by hand."""

    def __init__(self, folder, argv, *, mode=Mode.SDK, grace=5.0):
        spec = JobSpec(checkpoint=mode, grace=grace, backoff_limit=0)
        command = Command(argv=tuple(argv), where="/")
        jobs = {"x": RunnableJob(id="x", at=0.0, spec=spec, commands={"main": command})}
        cuts = [Cut(node("a")), Cut(node("b"))]
        chosen, clock = choose(f"moves-{os.getpid()}-{folder.name}"), Clock()
        super().__init__(LocalPlatform(folder, cuts, jobs, chosen, clock), clock, folder, jobs)
        self.work = self.record("x")
        self.until(lambda: self.work.arrived)
        self.place("a")

    def place(self, where):
        act = Place(job="x", where=((ReplicaId("x/main-0"), where),))
        assert isinstance(self.backend.act(act), Started)
        self.until(lambda: self.step() or self.work.finished_at)

    @property
    def member(self):
        return self.work.replicas.get("x/main-0")

    @property
    def process(self):
        return self.platform.processes["x/main-0"]

    def step(self):
        w = self.backend.monitor.replicas.get("x/main-0")
        if w is None:
            return 0
        w.reader.listen()
        return w.reader.step or 0

    def move(self):
        to = "b" if self.member.node == "a" else "a"
        outcome = self.backend.act(Move(replica=ReplicaId("x/main-0"), to=to))
        self.until(lambda: self.work.phase is not Phase.MIGRATING)
        return outcome

    def close(self):
        self.backend.cancel("the test is over", force=True)
        self.backend.close()
        assert processes(self.folder) == []


@pytest.fixture
def hands(tmp_path, enforcement):
    del enforcement
    made = []

    def make(text, **more):
        argv = [sys.executable, "-c", text] if isinstance(text, str) else text
        made.append(Hands(tmp_path, argv, **more))
        return made[0]

    yield make
    for each in made:
        each.close()


def saving(write):
    return textwrap.dedent(write) + CHECKPOINTS


@pytest.mark.parametrize("model", os.environ.get("HEADWAY_MODELS", "gru").split(","))
def test_after_moves_at_random_instants_the_weights_are_the_same_bit_for_bit(hands, model):
    moves = int(os.environ.get("HEADWAY_MOVES", "2"))
    steps = 40 + 12 * moves
    words = [
        "-m",
        "headway.trainings",
        model,
        "--steps",
        str(steps),
        "--batches",
        "8",
        "--seed",
        "5",
    ]
    plain = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, check=True
    ).stdout.splitlines()[-1]
    run = hands([sys.executable, *words])
    dice = random.Random(model)
    for _ in range(moves):
        pause = monotonic() + dice.uniform(0, 0.15)
        run.until(lambda pause=pause: monotonic() > pause or run.work.finished_at)
        assert isinstance(run.move(), Started), "the job ended too soon: give it more steps"
    run.until(lambda: run.work.finished_at is not None)
    assert run.work.moves == moves
    said = (run.folder / "jobs" / "x" / "main-0" / "out.log").read_text().splitlines()
    assert said[-1] == plain
    assert run.work.phase is Phase.SUCCEEDED


@pytest.mark.parametrize(
    "write",
    [
        pytest.param("def write(folder): time.sleep(600)", id="hangs"),
        pytest.param("def write(folder): raise OSError(28, 'no space left')", id="finds no space"),
        pytest.param("def write(folder): 1 / 0", id="breaks"),
    ],
)
def test_a_save_that_fails_or_hangs_changes_nothing(hands, write):
    run = hands(saving(write), grace=1.0)
    pid = run.process.pid
    assert isinstance(run.move(), Started)
    assert (run.process.pid, run.member.node, run.work.moves) == (pid, "a", 0)
    assert run.member.phase is Phase.RUNNING
    run.backend.observe()
    assert not (run.process.folder / "ask").exists()


def test_a_job_that_saves_on_sigterm_is_moved_by_it(hands):
    run = hands(BY_SIGNAL, mode=Mode.SIGTERM)
    before = run.step()
    assert isinstance(run.move(), Started)
    assert (run.member.node, run.work.moves) == ("b", 1)
    assert run.step() > before


def test_a_job_that_ignores_sigterm_continues_where_it_was_and_is_not_moved_again(hands):
    run = hands(DEAF, mode=Mode.SIGTERM, grace=0.5)
    assert isinstance(run.move(), Started)
    assert (run.member.node, run.work.moves, run.member.attempt) == ("a", 0, 2)
    outcome = run.move()
    assert isinstance(outcome, Refused)
    assert "cannot save checkpoints" in outcome.why


def test_a_job_is_suspended_and_goes_on_elsewhere(hands):
    run = hands(saving("def write(folder): (folder / 'x').touch()"))
    before = run.step()
    assert isinstance(run.backend.act(Suspend(job="x")), Started)
    run.until(lambda: run.work.phase is Phase.PENDING)
    assert processes(run.folder) == []
    run.place("b")
    assert run.step() > before
    assert run.work.failures == 0


# -- through crashes ---------------------------------------------------------------------------

SHUTTLE = '''
from headway.core.model.decision import Move, Plan, Suspend
from headway.core.model.serialization import memory, record
from headway.policy.registry import POLICIES, Entry

@memory
class Went:
    moved: dict[str, bool]
    slept: dict[str, bool]

@record
class Shuttle:
    """Moves every job once, and then suspends it once."""
    name: str = "shuttle"
    listens: bool = True
    def begin(self): return Went(moved={}, slept={})
    def decide(self, snapshot, memory):
        found = []
        for r in snapshot.running:
            step = r.history.step or 0
            if step >= 3 and r.id not in memory.moved:
                memory.moved[r.id] = True
                to = next(n for n in snapshot.nodes if n != r.node)
                found.append(Move(replica=r.id, to=to, reason="shuttle"))
            elif step >= 12 and r.id not in memory.slept:
                memory.slept[r.id] = True
                found.append(Suspend(job=r.job, reason="rest"))
        look = tuple(snapshot.nodes)
        return Plan(decisions=tuple(found), wake_after=0.1, look=look), memory

POLICIES["shuttle"] = Entry(Shuttle, "placement", "for tests")
from headway.cli import main
main()
'''


def shuttle(data, *words, env=None):
    script = data / "shuttle.py"
    script.write_text(SHUTTLE)
    running = subprocess.Popen(
        [sys.executable, str(script), *map(str, words)],
        env={**os.environ, "HEADWAY_DATA": str(data), **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    return end_of(running)


def crashed(data, n, *, moves):
    """One run with a crash at its n-th write, taken up again; did it come to the crash?"""
    command = [sys.executable, "-m", "headway.trainings", "cnn", "--steps", "60", "--batches", "6"]
    task = {"command": command}
    jobs = [{"name": "x", "spec": {"checkpoint": {"mode": "sdk"}, "tasks": [task]}}]
    head = {"apiVersion": "headway.dev/v1alpha1", "kind": "Workload"}
    nodes = [{"name": "a", "cpu": 1}, {"name": "b", "cpu": 1}]
    path = data / "w.json"
    path.write_text(json.dumps({**head, "nodes": nodes, "jobs": jobs}))
    env = {"HEADWAY_CRASH_AFTER_WRITES": str(n)}
    done = shuttle(data, "run", path, "--policy", "spread+shuttle", env=env)
    dead = done.returncode == -signal.SIGKILL
    if dead:
        again = shuttle(data, "run", "--resume", "latest")
        if again.returncode and "has ended" not in again.stderr:
            # It died before there was a run to resume.
            assert "no run is called" in again.stderr or "workload.yaml" in again.stderr, (
                again.stderr
            )
            assert processes(data) == []
            return True
    found = result(data)
    assert [j["outcome"] for j in found["per_job"]] == ["succeeded"], (n, found["reasons"])
    log = next(data.glob("runs/2*/jobs/x/main-0/out.log")).read_text().splitlines()
    assert sum(line.startswith("done") for line in log) == 1, n
    moves.append(found["moves"])
    weights.add(log[-1])
    assert processes(data) == [], n
    assert groups(data) == [], n
    return dead


weights: set[str] = set()


def test_after_a_crash_anywhere_in_a_move_and_a_suspend_the_job_ends_once_and_complete(
    tmp_path, enforcement
):
    del enforcement
    stride = int(os.environ.get("HEADWAY_CRASH_STRIDE", "23"))
    weights.clear()
    crashes, moves = 0, []
    for n in range(1, 1000, stride):
        data = tmp_path / str(n)
        data.mkdir()
        if not crashed(data, n, moves=moves):
            break
        crashes += 1
    note("crash points", crashes)
    assert crashes * stride >= 40
    assert moves[-1] == 1, "undisturbed, it is moved"
    assert len(weights) == 1, "the same weights, whatever happened"
