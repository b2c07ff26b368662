"""`headway run` and what belongs to it, with pacing: that needs no platform and no rights."""

import json
import os
import signal
import subprocess
import sys

import pytest
import yaml
from patience import end_of, wait_for
from typer.testing import CliRunner

from headway.backend.cpu_partition import fit_nodes
from headway.backend.local.enforcement import cgroup
from headway.cli import app
from headway.cli.display import sparkline
from headway.errors import BackendError, ConfigError
from headway.policy.registry import build
from headway.report.run_timeline import read_timeline
from headway.runtime import journal
from headway.runtime.loop import Loop
from headway.runtime.run_directory import RunDirectory
from headway.runtime.targets import Machine
from headway.spec.load import read_workload
from headway.spec.runnable import Command, environment, to_jobs
from making import node

TRAINS = """
import time, headway
run = headway.attach(total_steps=10)
for step in range(1, 11):
    time.sleep(0.02)
    run.report(step, loss=1 / step)
"""
PRINTS = """
import time
for i in range(20):
    print(f"step {i}/20 loss {1 / (i + 1)}", flush=True)
    time.sleep(0.05)
"""


def python(text):
    return [sys.executable, "-c", text]


def job(name, command, at=0.0, **spec):
    return {"name": name, "at": at, "spec": {"tasks": [{"command": command}], **spec}}


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWAY_ENFORCEMENT", "nice")
    monkeypatch.setenv("HEADWAY_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def write(tmp_path, *jobs, **more):
    path = tmp_path / "w.yaml"
    head = {"apiVersion": "headway.dev/v1alpha1", "kind": "Workload"}
    path.write_text(yaml.safe_dump({**head, **more, "jobs": list(jobs)}))
    return path


def call(*words, code=0):
    done = CliRunner().invoke(app, [str(w) for w in words])
    assert done.exit_code == code, (done.output, done.exception)
    return done


def test_a_run_ends_in_a_table_a_result_a_page_and_a_story(tmp_path, data):
    path = write(tmp_path, job("x", python(TRAINS)), job("y", python(PRINTS), at=0.2))
    assert "report:" in call("run", path).stdout
    folder = data / "runs" / "latest"
    (found,) = json.loads((folder / "result.json").read_text())
    assert [(j["name"], j["outcome"]) for j in found["per_job"]] == [
        ("x", "succeeded"),
        ("y", "succeeded"),
    ]
    assert [j["steps"] for j in found["per_job"]] == [10, 19]
    assert "<svg" in (folder / "report.html").read_text()
    told = json.loads(call("explain", "x", "--json").stdout)["events"]
    assert [e["what"] for e in told][:4] == ["pending", "place on machine", "starting", "running"]
    assert told[-1]["what"] == "succeeded"
    assert "succeeded" in call("explain", "y").stdout
    assert json.loads(call("report", "--json").stdout)[0]["jobs"] == 2
    assert "makespan" in call("report", "latest").stdout
    assert "no difference" in call("replay", folder).stdout


def test_the_report_is_written_where_it_is_wanted_or_nothing_runs(tmp_path, data):
    path = write(tmp_path, job("x", python("pass")))
    done = CliRunner().invoke(app, ["run", str(path), "--html", str(path / "x.html")])
    assert "cannot write the report" in str(done.exception)
    assert not data.exists()
    call("run", path, "--html", tmp_path / "new" / "x.html")
    assert "<svg" in (tmp_path / "new" / "x.html").read_text()


def test_a_failed_job_is_reported_with_its_reason_also_afterwards(tmp_path, data):
    bad = job("bad", python("raise SystemExit('no <data>')"), backoffLimit=1)
    path = write(tmp_path, bad, job("good", python(TRAINS)))
    folder = data / "runs" / "latest"
    said = [call("run", path, code=1).stdout, call("report").stdout]
    before = (folder / "result.json").read_text()
    done = CliRunner().invoke(app, ["run", "--resume", "latest"])
    assert "has ended" in str(done.exception)
    assert "headway report" in done.exception.hint
    assert (folder / "result.json").read_text() == before
    for text in said:
        assert "1 of 2 failed" in text
        assert "headway logs bad --run" in text
        assert "bad failed: exited with code 1: no <data> (attempt 2 of 2)" in text
    assert "no <data>" in json.loads(call("report", "--json").stdout)[0]["reasons"]["bad"]
    page = (folder / "report.html").read_text()
    assert "1 of 2 jobs under headway did not succeed" in page
    assert "no &lt;data&gt; (attempt 2 of 2)" in page
    assert "bad (failed)" in page
    stays = read_timeline(RunDirectory(folder)).stays
    assert [s.job for s in stays].count("bad") == 2
    assert not any(s.moved_in for s in stays), "a retry is no move"


def test_a_job_that_is_interrupted_before_its_submission_took_no_time(tmp_path, data):
    path = write(tmp_path, job("x", python("import time; time.sleep(60)")), job("y", ["x"], at=99))
    child = subprocess.Popen([sys.executable, "-m", "headway", "run", str(path)],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
    said = interrupted(child, data / "runs" / "latest" / "records" / "x" / "main-0" / "claim.1")
    assert "y cancelled after 0.0 s: interrupted" in said


def interrupted(child, when):
    wait_for(when.exists)
    child.send_signal(signal.SIGINT)
    done = end_of(child)
    assert done.returncode == 130, done.stderr
    return done.stderr + done.stdout


def test_the_journal_of_a_run_gives_back_its_memory(tmp_path, data):
    jobs = [job(f"j{i}", python(TRAINS), at=0.1 * i) for i in range(3)]
    call("run", write(tmp_path, *jobs), "--json")
    path = data / "runs" / "latest" / "journal.jsonl"
    lines = list(journal.read(path))
    assert [line["cycle"] for line in lines] == list(range(1, len(lines) + 1))
    loops = []
    for cut in (lines, list(journal.read(path))):
        loop = Loop(None, build("@headway"), journal.Journal())
        loop.restore(cut)
        loops.append(loop)
    assert loops[0].memory == loops[1].memory
    assert not loops[0].state.jobs


def test_observing_only_starts_jobs_and_changes_nothing(tmp_path, data):
    spin = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    jobs = [job(f"j{i}", python(spin)) for i in range(2)]
    done = call("run", write(tmp_path, *jobs), "--observe-only", "--policy", "las")
    assert "would have finished" in done.stdout
    assert "if their sizes vary by 10%" in done.stdout.replace("\n", " ")
    outcomes = [
        o
        for line in journal.read(data / "runs" / "latest" / "journal.jsonl")
        for o in line["outcomes"]
        if type(o.decision).__name__ == "SetShare"
    ]
    assert all(type(o).__name__ == "Refused" for o in outcomes)


def test_shares_are_paced_by_weight_and_by_limit(tmp_path, data):
    """FlowCon gives ceilings, `las` weights; both reach the pacer and jobs still end."""
    del data
    spin = "import time\nend = time.process_time() + 0.6\nwhile time.process_time() < end: pass"
    jobs = [job(f"j{i}", python(spin), at=0.3 * i) for i in range(3)]
    nodes = [{"name": "half", "cpu": 0.5}, {"name": "other", "cpu": 0.5}]
    path = write(tmp_path, *jobs, nodes=nodes)
    for policy in ("las", "flowcon:paper,interval=1"):
        (found,) = json.loads(call("run", path, "--policy", policy, "--json").stdout)
        assert [j["outcome"] for j in found["per_job"]] == ["succeeded"] * 3
        assert found["makespan_s"] > 1.5


def test_a_workload_larger_than_the_machine_is_scaled_and_says_so(tmp_path, data):
    del data
    path = write(tmp_path, job("x", python("pass")), nodes=[{"cpu": 1000}, {"cpu": 3000}])
    done = call("run", path, "--json")
    assert json.loads(done.stdout)[0]["cpu_factor"] == pytest.approx(os.cpu_count() / 4000, rel=0.3)
    nodes, factor = fit_nodes((node("a", cpu=8.0),), 2.0, 100.0)
    assert (nodes[0].capacity.cpu, nodes[0].capacity.memory, factor) == (2.0, 100.0, 0.25)


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        pytest.param({"profile": {"work": 3}}, "only the simulator", id="a profile alone"),
        pytest.param({"spec": {}}, "no command", id="no command"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_starts(tmp_path, data, entry, says):
    path = write(tmp_path, {"name": "x", **entry})
    with pytest.raises(ConfigError, match=says):
        to_jobs(read_workload(path), path)
    assert not data.exists()


def test_a_built_in_model_becomes_the_command_that_trains_it(tmp_path):
    profile = {"work": 10, "demand": 0.5, "steps": 100}
    path = write(tmp_path, {"name": "x", "model": "mnist-tf", "profile": profile})
    (made,) = to_jobs(read_workload(path), path)
    argv = made.commands["main"].argv
    assert argv[1:6] == ("-m", "headway.trainings", "cnn", "--steps", "100")
    assert made.spec.total_steps == 100


def test_thread_pools_are_sized_unless_the_user_did(monkeypatch):
    monkeypatch.setenv("MKL_NUM_THREADS", "7")
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    monkeypatch.setenv("HEADWAY_DATA", "/secret")
    command = Command(argv=("x",), env={"OMP_NUM_THREADS": "5"})
    found = environment(os.environ, command, 2, {"HEADWAY_JOB": "x"})
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    assert [found[n] for n in names] == ["5", "7", "2"]
    assert "HEADWAY_DATA" not in found


@pytest.mark.parametrize(
    ("base", "task", "expected"),
    [
        ({}, {}, "1000"),
        ({"GOMP_SPINCOUNT": "7"}, {}, "7"),
        ({}, {"GOMP_SPINCOUNT": "0"}, "0"),
        ({"OMP_WAIT_POLICY": "ACTIVE"}, {}, None),
        ({}, {"OMP_WAIT_POLICY": "PASSIVE"}, None),
    ],
)
def test_threads_wait_asleep_unless_the_user_says_how(base, task, expected):
    found = environment(base, Command(argv=("x",), env=task), 2, {})
    assert found.get("GOMP_SPINCOUNT") == expected


def test_adopted_processes_are_watched_and_left_alone(tmp_path, data):
    log = tmp_path / "own.log"
    with log.open("w") as out:
        child = subprocess.Popen(
            [sys.executable, "-u", "-c", PRINTS], stdout=out, start_new_session=True
        )
    done = call("adopt", child.pid, "--json")
    assert child.wait() == 0
    (found,) = json.loads(done.stdout)
    assert found["per_job"][0]["outcome"] == "succeeded"
    assert '"value"' in (data / "runs" / "latest" / "usage.jsonl").read_text()
    assert log.read_text().count("loss") == 20


def test_an_adopted_process_is_released(data):
    other = subprocess.Popen(python("import time; time.sleep(60)"), start_new_session=True)
    child = subprocess.Popen([sys.executable, "-m", "headway", "adopt", str(other.pid)],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
    try:
        said = interrupted(child, data / "runs" / "latest" / "usage.jsonl")
        assert f"-{other.pid} released after" in said
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run"], "give a workload"),
        (["run", "w.yaml", "--", "true"], "give only one: a workload, or a command after --"),
        (["submit", "w.yaml", "--", "true"], "give only one: a workload, or a command after --"),
        (["run", "--resume", "nothing"], "no run is called"),
        (["explain", "x"], "nothing has run yet"),
        (["report"], "nothing has run yet"),
        (["report", "x"], "no run is called"),
        (["adopt", "999999999"], "no process has the pid"),
    ],
)
def test_mistakes_have_one_clear_message(data, words, says):
    del data
    done = CliRunner().invoke(app, words)
    assert says in str(done.exception)
    assert done.exception.exit_code == 2


def test_a_torn_journal_is_repaired(tmp_path):
    path = tmp_path / "journal.jsonl"
    seen = '"seen":{"is":"Observation","at":0.0},"plan":{"is":"Plan"}'
    whole = f'{{"format":2,"cycle":1,"at_s":0.0,"trigger":"tick",{seen},"outcomes":[]}}\n'
    torn = whole.replace('"format":2,"cycle":1', '"cycle":2')
    for length in range(1, len(torn)):
        path.write_text(whole + torn[:length])
        journal.repair(path)
        lines = list(journal.read(path))
        assert lines[0]["outcomes"] == ()
        assert len(lines) == 1 or lines[1]["outcomes"] is None


def test_runs_that_begin_at_once_have_names_of_their_own(tmp_path):
    """Their control groups bear these names, whatever data folder they belong to."""
    made = [RunDirectory.new(tmp_path / f"{i % 2}", {}).id for i in range(10)]
    assert len(set(made)) == 10


def test_a_run_begins_where_another_of_our_number_died_half_way(tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / f".latest-{os.getpid()}").symlink_to("of-the-dead")
    made = RunDirectory.new(tmp_path, {})
    assert RunDirectory.find(tmp_path, "latest").path.name == made.id


def test_a_run_folder_has_one_headway(tmp_path):
    run = RunDirectory.new(tmp_path, {})
    other = RunDirectory.new(tmp_path, {})
    assert other.id != run.id
    assert not run.locked
    run.lock()
    assert run.locked
    with pytest.raises(ConfigError, match="another Headway"):
        RunDirectory(run.path).lock()
    run.unlock()
    assert RunDirectory.find(tmp_path, "latest").path == other.path


def test_what_could_not_begin_leaves_nothing_behind(tmp_path, data, monkeypatch):
    path = write(tmp_path, job("x", python("pass")))

    def fails(*_):
        raise BackendError("the platform is not there")

    with monkeypatch.context() as broken:
        broken.setattr(Machine, "backend", fails)
        done = CliRunner().invoke(app, ["run", str(path)])
        assert "the platform is not there" in str(done.exception)
        assert list((data / "runs").iterdir()) == []
    call("run", path)
    before = RunDirectory.find(data, "latest").id
    with monkeypatch.context() as broken:
        broken.setattr(Machine, "backend", fails)
        call("run", path, code=1)
    assert RunDirectory.find(data, "latest").id == before
    assert "makespan" in call("report").stdout


def test_a_report_of_a_run_that_goes_on_says_so(data):
    run = RunDirectory.new(data, {})
    done = CliRunner().invoke(app, ["report"])
    assert "has not ended" in str(done.exception)
    assert "--resume" in done.exception.hint
    run.lock()
    done = CliRunner().invoke(app, ["report"])
    assert "is still running" in str(done.exception)
    server = RunDirectory.new(data, {"server": True})
    done = CliRunner().invoke(app, ["report", server.id])
    assert (str(done.exception), done.exception.hint) == (
        f"run {server.id} is a server, which has no report",
        "headway history --jobs",
    )
    assert "--resume" not in done.exception.hint
    run.unlock()


def test_the_cgroup_module_needs_the_standard_library_only():
    code = "import sys; import headway.backend.local.enforcement.cgroup; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    foreign = {"numpy", "pydantic", "yaml", "typer", "rich"} & set(done.stdout.split())
    assert not foreign
    assert cgroup.UsageSample().cpu == 0


def test_a_sparkline_of_one_value_is_flat():
    assert sparkline([]) == ""
    assert sparkline([2.0, 2.0]) == "▁▁"


def test_the_machine_is_cut_into_as_many_nodes_as_are_asked_for(tmp_path, data):
    call("run", write(tmp_path, job("x", python("pass"))), "--nodes", "3", "--json")
    first = next(journal.read(data / "runs" / "latest" / "journal.jsonl"))
    assert len(first["seen"].nodes) == 3
