"""What every live backend shares, on a platform of puppets: the queue, pauses, moves, gangs."""

import json
import os
import sys
from time import monotonic

import pytest

from headway.backend import recovery
from headway.backend.clock import Clock
from headway.backend.cpu_partition import Cut
from headway.backend.local.enforcement.select import choose
from headway.backend.local.platform import LocalBackend
from headway.backend.replica_env import told
from headway.backend.state import Work
from headway.backend.transit import planned
from headway.core.model.decision import Move, Place, Started, Suspend
from headway.core.model.job import JobSpec, Mode, Phase, Task
from headway.core.model.units import ReplicaId
from headway.spec.runnable import Command, LiveJob
from making import node
from puppets import Puppets, workers


@pytest.fixture
def puppets(tmp_path):
    return lambda **spec: Puppets(tmp_path, **spec)


# -- pauses ----------------------------------------------------------------------------------------


def test_a_job_that_is_resumed_while_it_waits_to_be_tried_again_is_started_once(puppets):
    x = puppets()
    x.place()
    x.exit("main-0", 1)
    x.ask("resume")
    assert x.work.phase is Phase.LEAVING, "its time has not come"
    assert not x.place()
    x.pass_(1.0)
    assert x.place()
    x.pass_(60.0)
    assert x.work.phase is Phase.RUNNING
    assert not x.place(), "it runs already"


def test_a_job_that_is_paused_while_it_waits_to_be_tried_again_stays_away(puppets):
    x = puppets()
    x.place()
    x.exit("main-0", 1)
    x.ask("pause")
    x.pass_(60.0)
    assert x.work.phase is Phase.LEAVING
    assert not x.place()
    x.ask("resume")
    assert x.place()


def test_a_job_whose_pause_did_not_come_off_is_not_held_later(puppets):
    x = puppets()
    x.place()
    x.ask("pause")
    x.act(Suspend(job="x"))
    assert x.work.held
    x.pass_(11.0)
    assert (x.work.phase, x.work.held) == (Phase.RUNNING, False)
    assert not (x.work.folder / "held").exists()
    x.exit("main-0", 1)
    x.pass_(1.0)
    assert x.place()


def test_a_job_that_runs_and_cannot_save_itself_is_not_held(puppets):
    x = puppets(checkpoint=Mode.NONE)
    x.place()
    x.ask("pause")
    assert not x.work.held
    x.exit("main-0", 1)
    x.ask("pause")
    assert x.work.held, "now it can be kept away"


# -- what counts as saved --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "code", "saved"),
    [
        ("state.pt", 143, True),
        ("state.pt", 0, True),
        ("state.pt", 137, False),
        ("state.pt", 1, False),
        ("LATEST", 137, True),
    ],
)
def test_without_the_sdk_the_exit_code_says_whether_a_newer_file_is_whole(
    puppets, file, code, saved
):
    x = puppets(checkpoint=Mode.SIGTERM)
    x.place()
    x.act(Move(replica=ReplicaId("x/main-0"), to="b"))
    m, after = x["main-0"], Work(x.work.job, x.work.folder)
    m.save("a part of it", file)
    x.exit("main-0", code)
    assert x["main-0"].node == ("b" if saved else "a")
    assert x.work.spec.checkpoint is (Mode.SIGTERM if saved else Mode.NONE)
    assert planned(after, "main-0", 1, code) is saved, "the same after a crash"


def test_who_cannot_be_started_where_it_was_moved_to_is_tried_again(puppets, monkeypatch):
    x = puppets()
    x.place()
    x.act(Move(replica=ReplicaId("x/main-0"), to="b"))
    x["main-0"].save("step 3")
    x.pass_(0.1)

    def full(*what):
        del what
        raise OSError(28, "no space left")

    with monkeypatch.context() as patch:
        patch.setattr(x, "start", full)
        x.exit("main-0", 143)
    assert "could not be started on b" in x.work.reason
    x.pass_(1.0)
    assert x.place()


# -- gangs -----------------------------------------------------------------------------------------


@pytest.fixture
def pair(puppets):
    def make(mode=Mode.SDK):
        x = puppets(tasks=workers(2), checkpoint=mode)
        assert x.place("worker-0", "worker-1")
        return x

    return make


def test_of_a_gang_that_is_suspended_the_chief_saves_before_anybody_is_stopped(pair):
    x = pair()
    x.act(Suspend(job="x"))
    x.pass_(1.0)
    assert x.stopped == []
    assert {m.phase for m in x.members.values()} == {Phase.LEAVING}
    x["worker-0"].save("step 3")
    x.pass_(0.1)
    assert x.stopped == ["worker-0", "worker-1"]
    x.exit("worker-0", 143)
    x.exit("worker-1", 143)
    assert x.work.phase is Phase.PENDING
    after = Work(x.work.job, x.work.folder)
    assert planned(after, "worker-1", 1, 143), "after a crash it is no failure"
    assert x.place("worker-0", "worker-1")


def test_a_gang_whose_chief_does_not_save_stays_whole(pair):
    x = pair()
    x.act(Suspend(job="x"))
    x.pass_(11.0)
    assert (x.stopped, x.work.phase) == ([], Phase.RUNNING)
    assert {m.phase for m in x.members.values()} == {Phase.RUNNING}
    assert len(x.started) == 2


@pytest.mark.parametrize("order", [("worker-0", "worker-1"), ("worker-1", "worker-0")])
def test_a_gang_that_was_stopped_and_had_not_saved_begins_anew_as_a_whole(pair, order):
    x = pair(Mode.SIGTERM)
    x.ask("pause")
    x.act(Suspend(job="x"))
    assert x.stopped == ["worker-0", "worker-1"]
    for name in order:
        x.exit(name, 143)
    assert x.members == {}
    x.pass_(1.0)
    assert (x.work.phase, x.work.tries, x.work.held) == (Phase.PENDING, 0, False)
    assert x.work.spec.checkpoint is Mode.NONE
    assert x.place("worker-0", "worker-1")


def test_a_worker_that_ends_with_0_when_it_is_told_to_leave_holds_up_nobody(pair):
    x = pair()
    x.act(Suspend(job="x"))
    x["worker-0"].save("step 3")
    x.pass_(0.1)
    x.exit("worker-0", 143)
    x.exit("worker-1", 0)
    assert x.work.phase is Phase.PENDING
    assert x.place("worker-0", "worker-1")
    x.act(Move(replica=ReplicaId("x/worker-1"), to="b"))
    x.exit("worker-1", 0)
    assert x.work.phase is Phase.RUNNING, "it was done"


def test_a_worker_that_fails_while_the_chief_saves_fails_the_job(pair):
    x = pair()
    x.act(Suspend(job="x"))
    x.exit("worker-1", 1)
    assert x.stopped == ["worker-0"]
    x.exit("worker-0", 143)
    x.pass_(1.0)
    assert (x.work.phase, x.work.tries) == (Phase.PENDING, 1)


def test_ranks_are_by_the_job_and_not_by_who_placed_it(puppets):
    tasks = (Task(name="ps"), *workers(2), Task(name="chief"))
    x = puppets(tasks=tasks)
    names = ("worker-1", "ps-0", "worker-0", "chief-0")
    assert x.place(*names)
    ranks = [n[2:] for n, _, _ in sorted(x.started, key=lambda s: s[2])]
    assert ranks == ["ps-0", "chief-0", "worker-0", "worker-1"]
    env = told(x["worker-1"])
    assert (env["RANK"], env["WORLD_SIZE"]) == ("3", "4")
    found, first = json.loads(env["TF_CONFIG"]), int(env["MASTER_PORT"]) + 1
    hosts = [f"127.0.0.1:{first + i}" for i in range(4)]
    assert found["cluster"] == {"ps": hosts[:1], "chief": hosts[1:2], "worker": hosts[2:]}
    assert found["task"] == {"type": "worker", "index": 1}


def test_who_is_alone_is_told_of_nobody(puppets):
    x = puppets()
    x.place()
    assert not {"TF_CONFIG", "RANK", "MASTER_ADDR"} & set(told(x["main-0"]))


# -- after a crash ---------------------------------------------------------------------------------

PATIENT = "import os, sys, time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.02)"


class Crash(BaseException):
    pass


class Machine:
    """A gang of two processes on this machine, and one Headway after the other that looks after it;
    the first dies before it has started so many.
    """

    def __init__(self, folder, *, dies_at=2, mode=Mode.NONE):
        self.folder, self.mode = folder, mode
        self.headways = [self.headway()]
        self.until(lambda: not self.backend.coming)
        start, begun = self.backend.start, []

        def dying(*what):
            begun.append(what)
            if len(begun) > dies_at:
                raise Crash
            return start(*what)

        self.backend.start = dying

    @property
    def backend(self):
        return self.headways[-1]

    @property
    def work(self):
        return self.backend.works["x"]

    def headway(self):
        argv = (sys.executable, "-c", PATIENT, str(self.folder / "enough"))
        spec = JobSpec(tasks=workers(2), grace=5.0, checkpoint=self.mode)
        job = LiveJob(id="x", at=0.0, spec=spec, commands={"worker": Command(argv=argv, where="/")})
        chosen = choose(f"live-{os.getpid()}-{self.folder.name}")
        return LocalBackend(self.folder, [Cut(node("a", cpu=0.5))], [job], chosen, Clock())

    def place(self):
        where = tuple((ReplicaId.of("x", "worker", i), "a") for i in range(2))
        return self.backend.act(Place(job="x", where=where))

    def again(self):
        self.headways.append(self.headway())

    def until(self, claim):
        end = monotonic() + 20
        while not claim():
            assert monotonic() < end, "it never came true"
            self.backend.wait(0.02)

    def close(self):
        self.backend.cancel("the test is over", now=True)
        self.until(lambda: self.backend.over)
        for dead in self.headways[:-1]:
            for m in dead.members.values():
                m.bury()
        for each in reversed(self.headways):
            each.close()


@pytest.fixture
def machine(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWAY_ENFORCEMENT", "nice")
    made = []

    def make(**more):
        made.append(Machine(tmp_path, **more))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_a_gang_whose_start_was_cut_short_by_a_crash_begins_anew_as_a_whole(machine):
    x = machine(dies_at=1)
    with pytest.raises(Crash):
        x.place()
    x.until((x.folder / "jobs" / "x" / "worker-0" / "pid.1").exists)
    x.again()
    assert x.work.phase is Phase.LEAVING
    x.until(lambda: x.work.phase is Phase.PENDING)
    assert (x.work.members, x.work.tries) == ({}, 0)
    assert isinstance(x.place(), Started)
    assert {m.epoch for m in x.work.members.values()} == {1, 2}


def test_a_gang_that_is_whole_after_a_crash_goes_on_with_its_ranks(machine):
    x = machine()
    x.place()
    for name in ("worker-0", "worker-1"):
        x.until((x.folder / "jobs" / "x" / name / "pid.1").exists)
    x.again()
    assert x.work.phase is Phase.RUNNING
    assert [m.rank for m in x.work.members.values()] == [(0, 2), (1, 2)]


@pytest.mark.parametrize("mode", [Mode.SDK, Mode.NONE])
def test_a_pause_that_had_only_begun_when_headway_died_is_asked_for_again(machine, mode):
    x = machine(mode=mode)
    x.place()
    for name in ("worker-0", "worker-1"):
        x.until((x.folder / "jobs" / "x" / name / "pid.1").exists)
    x.work.hold(True)
    x.again()
    assert [r.wish for r in x.backend.observe().requests] == ["pause"]
    assert x.work.held is (mode is Mode.SDK), "who cannot save itself is not held either"


def test_a_worker_that_was_done_before_the_crash_is_not_missed(tmp_path):
    work = Work(LiveJob(id="x", at=0.0, spec=JobSpec(), commands={}), tmp_path)
    work.gang = (ReplicaId("x/worker-0"), ReplicaId("x/worker-1"))
    recovery.note_gang(work, [1, 1])
    gang = recovery._gang(work)
    work.members["x/worker-0"] = None
    done, again = recovery.Try(codes={"worker-1": 0}), recovery.Try(running={"worker-0"})
    assert recovery._whole(work, gang, [recovery.Try(), done])
    assert not recovery._whole(work, gang, [done, again]), "that was an earlier start"
    (tmp_path / "gang").write_text("x/worker-0 1\nx/wor")
    assert list(recovery._gang(work)) == ["x/worker-0"]
