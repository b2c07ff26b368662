"""What can happen to containers: engines that stop, people who remove them, folders that are
elsewhere, and a Headway that dies.
"""

import os
import signal
from itertools import groupby

import image
from containers import DockerHands
from local import headway, log, note, result, start, workload
from patience import end_of, wait_for
from test_docker import docker_job
from test_local_moves import shuttle

from headway.core.model.decision import Move, Place, Refused, SetShare, Started
from headway.core.model.job import Phase
from headway.core.model.units import ReplicaId
from headway.runtime import journal

SAVES = """
import os, time, headway.sdk as sdk
run = sdk.attach(total_steps=40)
step = int((run.latest.folder / "step").read_text()) if run.latest else 0
print("from", step, flush=True)
while step < 40:
    step += 1
    time.sleep(0.07)
    print("step", step, flush=True)
    run.report(step, loss=1 / step)
    if run.should_checkpoint() or step % 10 == 0:
        run.save(step, lambda folder: (folder / "step").write_text(str(step)))
    while step == 25 and not os.path.exists(os.environ["HEADWAY_DIR"] + "/more"):
        time.sleep(0.02)
"""


def begin(engine, data, **spec):
    """A run with one job, which has saved itself at step 20 and waits at step 25 for `go_on`."""
    path = workload(data, docker_job("x", SAVES, checkpoint={"mode": "sdk"}, **spec))
    words = ["--backend", "docker", "--image", image.NAME, "--engine", f"a={engine.url}"]
    running = start("run", path, *words, data=data)
    wait_for(lambda: "step 25" in log(data, "x"))
    return running


def go_on(data):
    (data / "runs" / "latest" / "jobs" / "x" / "main-0" / "more").touch()


def ended(running, data):
    end_of(running)
    return result(data)


def troubles(data):
    lines = journal.read(data / "runs" / "latest" / "journal.jsonl")
    return [r.trouble for line in lines for r in line["seen"].reports if r.trouble]


def nodes(data):
    """Whether nodes were seen up, each time that changed."""
    lines = journal.read(data / "runs" / "latest" / "journal.jsonl")
    return [up for up, _ in groupby(n.up for line in lines for n in line["seen"].nodes)]


def test_an_engine_that_takes_its_containers_down_is_waited_for_and_they_go_on(
    tmp_path, private_engine
):
    engine = private_engine()
    running = begin(engine, tmp_path, backoffLimit=0)
    engine.stop()
    wait_for(lambda: False in nodes(tmp_path))
    engine.start()
    go_on(tmp_path)
    found = ended(running, tmp_path)
    assert [(j["outcome"], j["steps"]) for j in found["per_job"]] == [("succeeded", 40)]
    said = log(tmp_path, "x")
    assert "from 20" in said, "it did not go on from its checkpoint"
    assert any("engine" in t for t in troubles(tmp_path))
    assert nodes(tmp_path) == [True, False, True]
    assert "the engine of node a stopped" in headway("explain", "x", data=tmp_path).stdout
    assert engine.containers() == []


def test_containers_that_outlive_their_engine_are_followed_again(tmp_path, private_engine):
    engine = private_engine(live_restore=True)
    running = begin(engine, tmp_path, backoffLimit=0)
    (there,) = engine.containers()
    engine.stop()
    wait_for(lambda: False in nodes(tmp_path))
    engine.start()
    assert engine.containers() == [there]
    go_on(tmp_path)
    found = ended(running, tmp_path)
    assert [(j["outcome"], j["steps"]) for j in found["per_job"]] == [("succeeded", 40)]
    said = log(tmp_path, "x").splitlines()
    assert said == ["from 0", *(f"step {i}" for i in range(1, 41))]
    assert engine.containers() == []


def test_a_container_removed_from_outside_restarts_and_is_reported(tmp_path, engines):
    engine = engines[0]
    running = begin(engine, tmp_path)
    (there,) = engine.containers()
    engine.client.delete(f"/containers/{there}", force=True)
    go_on(tmp_path)
    found = ended(running, tmp_path)
    assert found["per_job"][0]["outcome"] == "succeeded"
    assert "from 20" in log(tmp_path, "x")
    assert "container was removed" in headway("explain", "x", data=tmp_path).stdout
    assert engine.containers() == []


def test_nothing_is_decided_about_an_engine_that_is_away(tmp_path, private_engine, engines):
    engine = private_engine()
    platform = DockerHands(tmp_path, (engine, engines[1]))
    for name in ("x", "y"):
        platform.submit(name)
    place = Place(job="x", where=((ReplicaId("x/worker-0"), "a"),))
    assert isinstance(platform.backend.act(place), Started)
    platform.settle()
    engine.stop()
    platform.until(lambda: not platform.backend.controller.nodes["a"].up)
    for act in (
        SetShare(replica=ReplicaId("x/worker-0"), limit=0.5),
        Place(job="y", where=((ReplicaId("y/worker-0"), "a"),)),
    ):
        outcome = platform.backend.act(act)
        assert isinstance(outcome, Refused)
        assert "does not answer" in outcome.why or "is down" in outcome.why
    engine.start()
    platform.until(lambda: platform.backend.controller.nodes["a"].up)
    platform.close()


def test_a_move_to_an_engine_that_cannot_see_our_folder_takes_the_files_along(
    tmp_path, private_engine, engines
):
    here = engines[0]
    far = private_engine(hidden=tmp_path, tcp=23750 + os.getpid() % 1000)
    platform = DockerHands(tmp_path, (here, far))
    platform.submit("x")
    platform.backend.act(Place(job="x", where=((ReplicaId("x/worker-0"), "a"),)))
    platform.settle()
    steps = [platform.step("x")]
    for node in "bab":
        assert isinstance(
            platform.backend.act(Move(replica=ReplicaId("x/worker-0"), to=node)), Started
        )
        platform.settle()
        c = platform.container("x/worker-0")
        assert (c.node, platform.phase("x")) == (node, Phase.RUNNING)
        assert (c.sync is not None) == (node == "b")
        before = platform.step("x")
        platform.until(lambda before=before: platform.step("x") > before)
        steps.append(platform.step("x"))
    assert steps == sorted(steps)
    platform.close()
    assert platform.left_on_platform() == []


def test_jobs_outlive_a_killed_headway_and_are_found_again(tmp_path, engines):
    running = begin(engines[0], tmp_path)
    (there,) = engines[0].containers()
    running.kill()
    running.wait()
    go_on(tmp_path)
    headway("run", "--resume", "latest", data=tmp_path)
    said = log(tmp_path, "x").splitlines()
    assert said == ["from 0", *(f"step {i}" for i in range(1, 41))]
    assert result(tmp_path)["per_job"][0]["outcome"] == "succeeded"
    assert there not in engines[0].containers()


# -- through crashes ---------------------------------------------------------------------------


def crashed(data, n, engines, *, moves):
    """One run with a crash at its n-th write, taken up again; did it come to the crash?"""
    command = ["python3", "-m", "headway.trainings", "cnn", "--steps", "60", "--batches", "6"]
    jobs = [{"name": "x", "spec": {"checkpoint": {"mode": "sdk"}, "tasks": [{"command": command}]}}]
    nodes = [{"name": n, "engine": e.url} for n, e in zip("ab", engines, strict=True)]
    path = workload(data, *jobs, nodes=nodes)
    env = {"HEADWAY_CRASH_AFTER_WRITES": str(n)}
    words = ["--backend", "docker", "--image", image.NAME, "--policy", "spread+shuttle"]
    done = shuttle(data, "run", path, *words, env=env)
    dead = done.returncode == -signal.SIGKILL
    if dead:
        again = shuttle(data, "run", "--resume", "latest")
        if again.returncode and "has ended" not in again.stderr:
            # It died before there was a run to resume.
            assert "no run is called" in again.stderr or "workload.yaml" in again.stderr, (
                again.stderr
            )
            return True
    found = result(data)
    assert [j["outcome"] for j in found["per_job"]] == ["succeeded"], (n, found["reasons"])
    said = log(data, "x").splitlines()
    assert sum(line.startswith("done") for line in said) == 1, (n, said[-5:])
    moves.append((found["moves"], said[-1]))
    return dead


def test_after_a_crash_anywhere_in_a_move_and_a_suspend_the_job_ends_once_and_complete(
    tmp_path, engines
):
    stride = int(os.environ.get("HEADWAY_CRASH_STRIDE", "45"))
    crashes, moves = 0, []
    before = [e.containers() for e in engines]
    for n in range(1, 1000, stride):
        data = tmp_path / str(n)
        data.mkdir()
        if not crashed(data, n, engines, moves=moves):
            break
        crashes += 1
        assert [e.containers() for e in engines] == before, n
    note("crash points", crashes)
    assert crashes * stride >= 40
    assert moves[-1][0] == 1, "undisturbed, it is moved"
    assert len({weights for _, weights in moves}) == 1, "the same weights, whatever happened"
