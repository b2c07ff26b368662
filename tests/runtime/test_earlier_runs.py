"""What one run shows of a job is known in the next."""

import json
import sys
from dataclasses import replace

import pytest

from headway.core.model.job import Estimate, Expected, JobSpec
from headway.core.model.units import ReplicaId
from headway.runtime import earlier_runs
from headway.runtime.demand import DemandMeter, IdleMeter
from headway.runtime.earlier_runs import EarlierRuns, Seen, key, keys
from headway.spec.runnable import Command, RunnableJob
from making import node

SEEN = Seen(work=100.0, steps=50.0, demand=0.5, memory=1e8)


def command(*argv, **more):
    return {"main": Command(argv=argv, **more)}


def job(commands, **spec):
    return RunnableJob(id="x", at=0.0, spec=JobSpec(**spec), commands=commands)


def known(earlier, **spec):
    (found,) = earlier.fill_in([job(command("train"), **spec)])
    return found.spec


@pytest.fixture
def earlier(tmp_path):
    return EarlierRuns(tmp_path)


def ran(earlier, *seen, argv=("train",)):
    for each in seen:
        earlier.learn([(key(command(*argv)), " ".join(argv), each)])


def test_the_next_run_knows_size_demand_and_memory(earlier):
    assert known(earlier) == JobSpec(), "nothing has run yet"
    ran(earlier, SEEN)
    found = known(earlier)
    assert found.expected == Expected(work=Estimate(value=100.0, error=0.1), demand=0.5)
    assert found.tasks[0].request.memory == 1e8


def test_thousands_of_jobs_read_what_is_known_once(earlier, tmp_path):
    """A server read it for each of the jobs with which it started."""
    script = tmp_path / "train.py"
    script.write_text("1")
    commands = command("python", str(script))
    earlier.learn([(key(commands), "python train.py", SEEN)])
    recall = earlier.recall()
    earlier.path.unlink()
    assert recall(job(commands)).spec.expected is not None
    script.write_text("2")
    assert recall(job(commands)).spec.expected is not None, "the script was read again"


def test_the_error_is_what_was_seen_between_runs(earlier):
    ran(earlier, SEEN, replace(SEEN, work=140.0, demand=0.4))
    found = known(earlier).expected
    assert (found.work.value, found.demand) == (120.0, 0.5)
    assert found.work.error == pytest.approx(40 / 120)


def test_declared_steps_have_the_cost_that_steps_had(earlier):
    ran(earlier, SEEN)
    assert known(earlier, total_steps=200.0).expected.work.value == 400.0


def test_what_is_declared_is_kept(earlier):
    ran(earlier, SEEN)
    declared = Expected(work=Estimate(value=7.0))
    assert known(earlier, expected=declared).expected == declared


def test_a_run_that_showed_no_size_leaves_it_unknown(earlier):
    ran(earlier, Seen(memory=1e8))
    assert known(earlier).expected is None
    assert known(earlier).tasks[0].request.memory == 1e8
    ran(earlier, SEEN, Seen())
    assert known(earlier).expected.work.value == 100.0


def test_a_kind_is_a_command_with_its_files_arguments_and_folder(tmp_path):
    script, large = tmp_path / "train.py", tmp_path / "large"
    script.write_text("one")
    large.write_bytes(bytes(earlier_runs.HASHED + 1))
    here = str(tmp_path)

    def kind(*argv, **more):
        return key(command("python", "train.py", *argv, **{"where": here, **more}))

    first, with_large, in_image = kind(), kind("large"), kind(image="a")
    assert len({first, with_large, in_image, kind("--lr", "2"), kind(where="/"), kind("\0")}) == 6
    large.write_bytes(bytes(earlier_runs.HASHED + 2))
    assert kind("large") == with_large
    script.write_text("two")
    assert kind() != first
    assert kind(image="a") == in_image, "the files of an image are not here"


def test_adopted_jobs_have_no_kind():
    made = job(command("train", "--fast"))
    assert keys([made])["x"][1] == "train --fast"
    assert keys([replace(made, adopted=4711), replace(made, commands={})]) == {}


def test_only_the_kinds_that_ran_last_are_kept(earlier, monkeypatch):
    monkeypatch.setattr(earlier_runs, "MOST", 3)
    for i in range(5):
        ran(earlier, SEEN, argv=("train", str(i)))
    assert [k.command for k in earlier.read().values()] == ["train 2", "train 3", "train 4"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"version": 1}',
        b'{"version": 2, "kinds": {}}',
        b'{"version": 1, "kinds": {"a": {"command": "x", "runs": 1, "work": "much"}}}',
        b'{"version": 1, "kinds": {"a": {"command": "x", "runs": 1, "shape": 1}}}',
        b'{"version": 1, "kinds": {"a": 1}}',
    ],
)
def test_a_file_that_cannot_be_used_is_ignored_with_a_warning(earlier, content, caplog):
    earlier.path.write_bytes(content)
    assert known(earlier) == JobSpec()
    assert str(earlier.path) in caplog.text
    ran(earlier, SEEN)
    assert known(earlier).expected is not None


def test_a_process_that_dies_while_writing_leaves_the_old_file(earlier, monkeypatch):
    ran(earlier, SEEN)
    before = earlier.path.read_text()

    def dies(_):
        raise OSError("died")

    monkeypatch.setattr("os.fsync", dies)
    with pytest.raises(OSError, match="died"):
        ran(earlier, SEEN)
    assert earlier.path.read_text() == before


def test_kinds_are_forgotten_by_a_part_of_their_command(earlier):
    assert earlier.forget() == []
    for name in ("cnn", "vae", "gru"):
        ran(earlier, SEEN, argv=("train", name))
    assert earlier.forget("v?e") == ["train vae"]
    assert earlier.forget("nothing") == []
    assert earlier.forget() == ["train cnn", "train gru"]
    assert json.loads(earlier.path.read_text()) == {"version": 1, "kinds": {}}


X, Y = ReplicaId("x/main-0"), ReplicaId("y/main-0")
NODES = {"a": node("a", cpu=2.0)}


def test_a_job_shows_its_demand_while_its_node_has_idle_cpu():
    meter = DemandMeter()
    for now in range(1, 9):
        meter.add(float(now), NODES, {X: ("a", 0.5), Y: ("a", 1.2), "z/main-0": ("gone", 1.0)})
    assert meter.demand == {"x": pytest.approx(0.5), "y": pytest.approx(1.2)}
    for now in range(9, 12):
        meter.add(float(now), NODES, {X: ("a", 0.7)}, limited={X})
        meter.add(float(now) + 0.5, NODES, {X: ("a", 1.9)})
    assert meter.demand["x"] == pytest.approx(0.5), "it was limited, or had all there was"
    for now in range(12, 20):
        meter.add(float(now), NODES, {X: ("a", 0.8)}, spare=0.1)
    assert meter.demand["x"] == pytest.approx(0.5), "other programs used the rest"


def test_the_idle_cores_of_this_machine_are_measured():
    meter = IdleMeter()
    meter.cores(1.0)
    assert 0 <= meter.cores(1e9) < 1
    assert meter.cores(1e9) == 0


def test_a_run_remembers_and_the_next_one_recalls(tmp_path, headway):
    script = tmp_path / "train.py"
    script.write_text(
        "import time\n"
        "end = time.process_time() + 1\n"
        "while time.process_time() < end: pass\n"
        "print('step 10 loss 0.1')\n"
    )
    task = {"command": [sys.executable, "train.py"]}
    path = tmp_path / "w.yaml"
    jobs = [{"name": "x", "at": 0, "spec": {"tasks": [task]}}]
    head = {"apiVersion": "headway.dev/v1alpha1", "kind": "Workload"}
    path.write_text(json.dumps({**head, "jobs": jobs}))
    data = tmp_path / "data"
    for runs in (1, 2):
        headway("run", path, "--data", data, "--json")
        (kind,) = EarlierRuns(data).read().values()
        assert (kind.runs, kind.step_cost) == (runs, pytest.approx(kind.work / 10, rel=0.2))
        assert kind.work == pytest.approx(1.05, abs=0.2)
    asked = headway("forget", "train.py", "--data", data, "--json")
    assert json.loads(asked.out) == [f"{sys.executable} train.py"]
    assert "0 kinds of job forgotten" in headway("forget", "--all", "--data", data).out
    for words in ((), ("train.py", "--all")):
        refused = headway("forget", *words, "--data", data)
        assert (refused.code, "or --all" in refused.err) == (2, True)
