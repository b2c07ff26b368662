"""The commands of the command line."""

import json
import re
from pathlib import Path

import pytest
import yaml
from doc_pictures import draw

from headway import __version__
from headway.bench import suite
from headway.bench.decide import bench_cluster
from headway.bench.results_page import growth_charts
from headway.bench.simulator import cpu_seconds, crowd
from headway.cli import app
from headway.runtime.journal import digest, read

ROOT = Path(__file__).parents[2]
WORKLOADS = sorted(p for p in (ROOT / "workloads").glob("*.yaml") if ".expect" not in p.name)
KEYS = {
    "policy", "backend", "seed", "jobs", "mean_completion_s", "median_completion_s",
    "p95_completion_s", "makespan_s", "mean_time_to_quality_s", "mean_waiting_s", "utilization",
    "moves", "faster", "slower", "worst_ratio",
    "mean_running_s", "cpu_allocated", "cpu_useful", "gpu_allocated", "gpu_useful", "deadlocks",
    "foreign_cores",
}  # fmt: skip
PER_JOB = {"name", "submitted_s", "started_s", "finished_s", "steps", "moves", "outcome"}
THREE = ROOT / "workloads" / "three-jobs.yaml"


def test_simulate_prints_a_table(headway):
    ran = headway("simulate", THREE, "-p", "fair", "-p", "flowcon:paper")
    assert ran.code == 0
    assert "394.2" in ran.out
    assert re.search(r"flowcon:paper\s+229\.7\s+-4\.2%", ran.out)
    assert "worst" in ran.out
    alone = headway("simulate", THREE, "-p", "fair").out
    assert "worst" not in alone, "one policy has no baseline"


@pytest.mark.usefixtures("one_core")
@pytest.mark.untraced
@pytest.mark.parametrize(("width", "lost"), [(120, ""), (72, "p95"), (50, "makespan")])
def test_the_name_of_a_policy_stays_on_one_line(headway, monkeypatch, width, lost):
    monkeypatch.setenv("COLUMNS", str(width))
    named = ["fair", "spread", "flowcon:paper", "headway:lag=0.01"]
    out = headway("simulate", THREE, *(w for p in named for w in ("-p", p)), "--seeds", 2).out
    assert [line.split()[0] for line in out.splitlines()[2:6]] == named
    assert ("Columns that do not fit" in out) == bool(lost)
    assert lost in " ".join(out.split())
    assert re.search(r"spread\s+\d+\s+0\.0%", out), "neither +0.0% nor -0.0%"


@pytest.mark.usefixtures("one_core")
def test_long_settings_of_a_policy_do_not_displace_columns(headway, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    long = "dragon:starve_after=2,grow_after=2,restart=1"
    out = headway("simulate", THREE, "-p", "spread", "-p", long, "-p", "headway").out
    assert out.splitlines()[1].split() == [
        "policy", "mean", "p95", "makespan", "faster", "slower", "worst",
    ]  # fmt: skip
    assert re.search(r"^dragon:…\s+\d", out, re.MULTILINE)
    assert f"dragon:… is {long}\n" in out
    assert "do not fit" not in out


def test_several_policies_have_a_journal_each(headway, tmp_path):
    ran = headway("simulate", THREE, "-p", "fair", "-p", "las", "--journal", tmp_path / "k.jsonl")
    named = [tmp_path / f"k-{policy}.jsonl" for policy in ("fair", "las")]
    assert f"journals: {named[0]}, {named[1]}" in ran.out
    assert all(path.exists() for path in named)


def test_one_job_is_counted_in_the_singular(headway, workload):
    ran = headway("simulate", workload("jobs: [{name: x, profile: {work: 5}}]\n"))
    assert ran.out.startswith("1 job, 1 seed;")


def test_simulate_prints_json(headway):
    ran = headway("simulate", THREE, "--json")
    first, second = json.loads(ran.out)
    assert set(first) == KEYS | {"per_job"}
    assert set(first["per_job"][0]) == PER_JOB
    assert first["makespan_s"] == pytest.approx(394.2)
    assert (first["policy"], second["policy"], first["slower"]) == ("fair", "headway", 0)


@pytest.mark.untraced
def test_several_seeds_give_mean_and_spread(headway):
    ran = headway("simulate", ROOT / "workloads" / "ten-jobs.yaml", "--seeds", 3, "--json")
    first, _ = json.loads(ran.out)
    assert set(first) == KEYS
    assert set(first["makespan_s"]) == {"mean", "sd", "min", "max"}
    assert first["makespan_s"]["min"] < first["makespan_s"]["max"]
    assert first["seed"] == [0, 1, 2]


def test_no_backoff_sets_flowcon_only(headway):
    ran = headway("simulate", THREE, "-p", "fair", "-p", "flowcon", "--no-backoff", "--json")
    assert [r["policy"] for r in json.loads(ran.out)] == ["fair", "flowcon:backoff=off"]


def test_a_report_page_needs_no_other_file(headway, tmp_path):
    page = tmp_path / "deep" / "page.html"
    ran = headway("simulate", THREE, "--html", page)
    assert ran.code == 0
    text = page.read_text(encoding="utf-8")
    assert text.count("<svg") == 7  # completion; and CPU, Gantt, loss for each of two policies
    assert not re.search(r"(src|href)=[\"']?https?:", text)
    assert "mnist-tf" in text


def test_a_journal_reads_back_with_correct_digests(headway, tmp_path):
    path = tmp_path / "journal.jsonl"
    ran = headway("simulate", THREE, "-p", "flowcon", "--journal", path)
    assert ran.code == 0
    lines = list(read(path))
    assert [line["cycle"] for line in lines] == list(range(1, len(lines) + 1))
    assert all("outcomes" in line for line in lines)
    first = json.loads(path.read_text().splitlines()[0])
    assert first["digest"] == digest(first["memory"])
    again = tmp_path / "again.jsonl"
    for _ in range(2):  # a second run into the same file replaces the first
        headway("simulate", THREE, "-p", "flowcon", "--journal", again)
        assert path.read_bytes() == again.read_bytes()


def test_one_journal_for_each_policy(headway, tmp_path):
    headway("simulate", THREE, "--journal", tmp_path / "j.jsonl")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["j-fair.jsonl", "j-headway.jsonl"]


@pytest.mark.usefixtures("one_core")
@pytest.mark.untraced
def test_an_expanded_workload_runs_like_the_original(headway, tmp_path):
    ten = ROOT / "workloads" / "ten-jobs.yaml"
    written = tmp_path / "ten.yaml"
    written.write_text(headway("workload", "expand", ten, "--seed", 3).out, encoding="utf-8")
    assert len(yaml.safe_load(written.read_text())["jobs"]) == 10
    first = json.loads(headway("simulate", written, "-p", "flowcon", "--json").out)[0]
    drawn = headway("simulate", ten, "-p", "flowcon", "--seeds", 4, "--json")
    assert first["seed"] == 3
    assert first["mean_completion_s"] <= json.loads(drawn.out)[0]["mean_completion_s"]["max"]
    as_json = json.loads(headway("workload", "expand", ten, "--json").out)
    assert as_json["kind"] == "Workload"


def test_a_manifest_by_path_is_used(headway, tmp_path):
    (tmp_path / "train.yaml").write_text(
        "apiVersion: headway.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: vae}\n"
        "spec:\n  totalSteps: 300\n  priority: 1\n  checkpoint: {mode: sigterm}\n"
        "  tasks: [{resources: {requests: {cpu: 600m, memory: 1Gi}}}]\n"
    )
    path = tmp_path / "w.yaml"
    path.write_text(
        "apiVersion: headway.dev/v1alpha1\nkind: Workload\njobs:\n"
        "  - {name: a, manifest: train.yaml, profile: {work: 10}}\n"
        "  - {name: b, manifest: train.yaml, profile: {work: 10}}\n"
    )
    first = json.loads(headway("simulate", path, "--json").out)[0]
    assert [j["started_s"] for j in first["per_job"]] == [0.0, 10.0]  # 600m twice do not fit


@pytest.mark.untraced
@pytest.mark.parametrize("path", WORKLOADS, ids=lambda p: p.stem)
def test_every_workload_of_the_repository_runs(headway, path):
    assert headway("simulate", path, "--json").code == 0


def test_policies_are_listed(headway):
    assert "kube-scheduler" in headway("policies").out
    one = headway("policies", "flowcon").out
    assert "interval=20.0" in one
    assert "Double the interval while all replicas have converged." in one
    assert "did you mean 'flowcon'" in headway("policies", "flowcn").err
    listed = json.loads(headway("policies", "--json").out)
    assert [p["name"] for p in listed if p["modes"]] == [
        "flowcon", "flowcon2", "specon", "dragon",
    ]  # fmt: skip
    settings = {p["name"]: p["settings"] for p in listed}
    assert settings["flowcon"]["threshold"] == 0.05


def commands():
    for command in app.registered_commands:
        yield [command.callback.__name__]
    for group in app.registered_groups:
        for command in group.typer_instance.registered_commands:
            yield [group.name, command.name or command.callback.__name__]


@pytest.mark.parametrize("command", list(commands()), ids=" ".join)
def test_the_help_of_every_command_has_an_example(headway, command):
    lines = [line.strip() for line in headway(*command, "--help").out.splitlines()]
    words = " ".join(["headway", *command])
    examples = [line for line in lines if line.removeprefix("nohup ").startswith(words)]
    assert examples
    assert all(line.count(words) == 1 for line in examples)


def test_the_usage_names_arguments_as_the_text_does(headway):
    assert "headway logs [OPTIONS] {JOB}" in headway("logs", "--help").out
    assert "headway wait [OPTIONS] [JOBS...]" in headway("wait", "--help").out
    assert "headway submit [OPTIONS] [WORKLOAD] [-- COMMAND]" in headway("submit", "--help").out
    assert "Missing argument 'JOB'" in headway("explain").err


def test_the_version_is_printed(headway):
    assert headway("--version").out.strip() == __version__


def test_bench_judges_its_figures(headway, monkeypatch, tmp_path):
    good, bad = suite.Figure("a", 1.0, "s", 2.0), suite.Figure("b", 3.0, "s", 2.0)
    monkeypatch.setitem(suite.BENCHES, "good", lambda rate: [good, suite.Figure("c", rate, "M/s")])
    monkeypatch.setitem(suite.BENCHES, "bad", lambda _: [good, bad])
    ran = headway("bench", "good", "--json")
    found = json.loads(ran.out)
    assert ran.code == 0
    assert set(found) == {"bench", "commit", "cores", "score", "figures"}
    assert found["figures"][0] == {"name": "a", "value": 1.0, "unit": "s", "bar": 2.0, "pass": True}
    monkeypatch.setitem(
        suite.BENCHES, "growing", lambda _: [suite.Figure("d", 1, "ms", 5, x=n) for n in (1, 9)]
    )
    page = tmp_path / "bench.html"
    assert headway("bench", "growing", "--html", page).code == 0
    assert page.read_text(encoding="utf-8").count("<svg") == 1
    ran = headway("bench", "bad")
    assert ran.code == 1
    assert "missed" in ran.out


@pytest.mark.untraced
def test_decisions_are_measured_by_the_size_of_the_cluster():
    figures = bench_cluster(1.0, sizes=(2, 4))
    assert {f.series for f in figures if f.x} >= {"headway", "spread", "fifo", "tiresias"}
    assert [f.x for f in figures if f.series == "headway"] == [10, 20]
    assert all(f.value > 0 for f in figures)
    assert growth_charts(figures).count("<svg") == 2


@pytest.mark.untraced
def test_the_pictures_of_the_documentation_are_up_to_date():
    for name, content in draw(ROOT / "workloads").items():
        there = (ROOT / "docs" / "pictures" / name).read_text(encoding="utf-8")
        assert there == content, f"{name} is out of date: run make pictures"


@pytest.mark.untraced
def test_the_simulator_is_fast_enough_on_a_small_case():
    """The whole of `headway bench sim` takes a minute; this is its smallest figure."""
    seconds = min(cpu_seconds(crowd(50, 8)) for _ in range(3))
    assert seconds * suite.score() / suite.REFERENCE < 0.3
