"""Traces of other clusters, by path."""

import json

import pytest

from headway.bench.suite import run
from headway.errors import ConfigError, UnknownName
from headway.sim.trace_import import Cluster, read_trace

PHILLY = (
    "timestamp,duration,num_gpus,gpu_time,cluster\n"
    "2017-10-09 07:01:55,66.0,1,66.0,11cb48\n"
    "2017-10-09 07:00:55,600.0,8,4800.0,11cb48\n"
    "2017-10-09 07:02:05,5.0,2,10.0,11cb48\n"
)
ITP = (
    "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration\n"
    "c9c620ea,5810,395,inception3,314395,64,16,288\n"
    "be631d51,5813,401,inception3,308959,64,4,292\n"
)
SWF = (
    "; Computer: somewhere\n; MaxProcs: 8\n\n"
    "1 0 -1 100 4 -1 -1 4 200 -1 1 1 1 -1 1 -1 -1 -1\n"
    "2 30 -1 50 -1 -1 -1 8 100 -1 1 1 1 -1 1 -1 -1 -1\n"
    "3 40 -1 -1 2 -1 -1 2 100 -1 5 1 1 -1 1 -1 -1 -1\n"
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "philly.csv").write_text(PHILLY, encoding="utf-8")
    (tmp_path / "itp-cluster04.csv").write_text(ITP, encoding="utf-8")
    (tmp_path / "jobs.swf").write_text(SWF, encoding="utf-8")
    return tmp_path


def jobs(scenario):
    return [(j.at, j.work / j.spec.tasks[0].replicas, j.spec.gpus) for j in scenario.jobs]


def test_philly_in_order_of_submission(folder):
    found = read_trace(folder / "philly.csv", "philly", Cluster())
    assert jobs(found) == [(0.0, 600.0, 8.0), (60.0, 66.0, 1.0), (70.0, 5.0, 2.0)]
    assert len(found.nodes) == 128
    assert found.nodes[0].capacity.gpu == 4


def test_which_jobs_and_how_many(folder):
    def chosen(**cluster):
        return len(read_trace(folder / "philly.csv", "philly", Cluster(**cluster)).jobs)

    assert chosen(shortest=60.0) == 2
    assert chosen(largest=4) == 2
    assert chosen(first=1) == 1
    assert chosen(shortest=60.0, largest=4) == 1


def test_itp(folder):
    found = read_trace(folder / "itp-cluster04.csv", "itp", Cluster(nodes=2, devices=8))
    assert jobs(found) == [(0.0, 288.0, 16.0), (3.0, 292.0, 4.0)]


def test_swf_is_of_cores_and_leaves_out_what_never_ran(folder):
    found = read_trace(folder / "jobs.swf", "swf", Cluster(nodes=2, devices=4))
    assert [(j.at, j.work, j.spec.tasks[0].replicas) for j in found.jobs] == [
        (0.0, 400.0, 4), (30.0, 400.0, 8),
    ]  # fmt: skip
    assert found.jobs[0].spec.tasks[0].request.cpu == 1
    assert found.nodes[0].capacity.gpu == 0


@pytest.mark.parametrize(
    ("text", "form", "says"),
    [
        pytest.param(PHILLY, "slurm", "no trace format is called 'slurm'", id="format"),
        pytest.param(ITP, "philly", "no column 'timestamp'", id="columns"),
        pytest.param("", "itp", "no column 'submission_time'", id="empty"),
        pytest.param(PHILLY + "yesterday,6,1,6,x\n", "philly", "invalid job", id="time"),
        pytest.param(PHILLY + "2017-10-09 07:01:55\n", "philly", "invalid job", id="short"),
        pytest.param("1 2 3\n", "swf", "invalid job", id="swf"),
        pytest.param(PHILLY + '"' + "x\n" * 70_000, "philly", "invalid CSV: field", id="field"),
        pytest.param(PHILLY + "x" * 140_000, "philly", "65,536 characters in a line", id="line"),
        pytest.param(ITP + "x,nan,1,m,1,1,1,9\n", "itp", "invalid job: 'nan'", id="nan"),
        pytest.param(ITP + "x,-inf,1,m,1,1,1,9\n", "itp", "invalid job: '-inf'", id="infinity"),
        pytest.param(ITP + "x,1e300,1,m,1,1,1,9\n", "itp", "invalid job: '1e300'", id="absurd"),
        pytest.param(ITP + "x,5,1,m,1,1,0,9\n", "itp", "invalid job: '5', '9', '0'", id="devices"),
        pytest.param("; nothing\n", "swf", "no job of this trace matches", id="nothing"),
        pytest.param(PHILLY.replace(",8,", ",800,"), "philly", "needs 800 devices", id="too large"),
    ],
)
def test_a_bad_trace_is_refused_by_line(tmp_path, text, form, says):
    path = tmp_path / "trace"
    path.write_text(text, encoding="utf-8")
    with pytest.raises((ConfigError, UnknownName)) as caught:
        read_trace(path, form, Cluster())
    assert says in caught.value.message
    if "line is no job" in says:
        assert caught.value.where.endswith((":5", ":1"))
        assert "in seconds" in caught.value.hint


def test_simulate_takes_a_trace(headway, folder):
    trace = folder / "philly.csv"
    ran = headway("simulate", "--trace", trace, "--nodes", 2, "--json")
    fifo, las = json.loads(ran.out)
    assert [fifo["policy"], las["policy"]] == ["fifo", "tiresias"]
    assert fifo["jobs"] == 3
    assert fifo["makespan_s"] == pytest.approx(666.0)
    table = headway("simulate", "--trace", folder / "jobs.swf", "--format", "swf", "-p", "fifo")
    assert "2 jobs" in table.out
    shown = headway("simulate", "--trace", trace, "--nodes", 2).out
    assert "GPU time that made progress: fifo" in shown
    assert "cannot read this trace" in headway("simulate", "--trace", folder / "none").err


@pytest.mark.untraced
def test_traces_are_measured_where_they_are(headway, folder, monkeypatch):
    monkeypatch.delenv("HEADWAY_TRACES", raising=False)
    result, plot = run("traces", folder)
    names = [f["name"] for f in result["figures"]]
    assert "philly-5k, fifo" in names
    assert "itp-04, tiresias: mean completion" in names
    assert plot == ""
    bars = {f["name"]: f["bar"] for f in result["figures"] if f["bar"]}
    assert bars["philly, tiresias"] == 30
    ran = headway("bench", "traces")
    assert ran.code == 2
    assert "HEADWAY_TRACES" in ran.err
