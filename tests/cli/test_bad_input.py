"""A mistake gives one message: what is wrong, where, and what to do; never a traceback."""

import json

import pytest

from headway.errors import UnknownName
from headway.spec.load import read_workload

JOB = "jobs: [{name: x, profile: {work: 5}}]\n"


@pytest.mark.parametrize(
    ("body", "says", "where"),
    [
        pytest.param(
            "jobs:\n  - name: x\n    profile: {wrok: 5}\n",
            ["unknown key 'wrok'", "did you mean 'work'"],
            "w.yaml:5, jobs[0].profile",
            id="an unknown key",
        ),
        pytest.param(
            "jobs:\n  - {name: x, at: 5 parsecs, model: gru}\n",
            ["unknown unit 'parsecs' of time", "ms, s, m"],
            "w.yaml:4, jobs[0].at",
            id="a wrong unit",
        ),
        pytest.param(
            "nodes: [{name: a, memory: 4Gb}]\n" + JOB,
            ["unknown unit 'Gb' of memory", "Gi"],
            "w.yaml:3, nodes[0].memory",
            id="a wrong unit of memory",
        ),
        pytest.param(
            "jobs:\n  - {name: x, model: gru}\n  - {name: y, at: -3, model: gru}\n",
            ["greater than or equal to 0", "-3"],
            "w.yaml:5, jobs[1].at",
            id="a negative time",
        ),
        pytest.param(
            "nodes: 2\njobs: [{name: x, profile: {work: 5}, spec: {tasks: "
            "[{resources: {requests: {cpu: 4}}}]}}]\n",
            ["requests 4 cores per replica", "the largest node has 1 core", "request less"],
            "w.yaml",
            id="a job that fits no node",
        ),
        pytest.param(
            "jobs:\n  - name: x\n    profile: {work: 5}\n"
            "    spec: {tasks: [{replicas: 2, minReplicas: 3, maxReplicas: 2}]}\n",
            ["minReplicas: must not exceed maxReplicas, but is 3", "tasks[0].minReplicas"],
            "w.yaml:6, jobs[0].spec.tasks[0]",
            id="a minimum above the maximum",
        ),
        pytest.param(
            "jobs:\n  - name: x\n    profile: {work: 5}\n    spec: {tasks: [{replicas: 0}]}\n",
            ["greater than or equal to 1", "0"],
            "w.yaml:6, jobs[0].spec.tasks[0].replicas",
            id="no replicas",
        ),
        pytest.param(
            "jobs:\n  - name: x\n    profile: {work: 5}\n"
            "    spec: {tasks: [{name: worker}, {name: worker}]}\n",
            ["two tasks are called 'worker'"],
            "w.yaml:6, jobs[0].spec",
            id="two tasks of one name",
        ),
        pytest.param(
            "jobs:\n  - name: x\n    profile: {speed: {kind: sync, compute: 1}}\n"
            "    spec: {tasks: [{name: worker}]}\n",
            ["job 'x' trains with parameter servers", "no task called 'ps'"],
            "w.yaml:4, jobs[0]",
            id="a ps job without ps",
        ),
        pytest.param(
            "jobs:\n  - name: x\n    profile: {speed: {kind: async, compute: 1}}\n"
            "    spec: {tasks: [{name: ps}]}\n",
            ["must have a task besides ps: add a task called worker"],
            "w.yaml:6, jobs[0].spec.tasks",
            id="a ps job without workers",
        ),
        pytest.param(
            "jobs:\n  - name: x\n    profile: {speed: {kind: ring, compute: 1}}\n"
            "    spec: {tasks: [{name: ps}, {name: worker}]}\n",
            ["job 'x' trains in a ring, which has no task 'ps'"],
            "w.yaml:4, jobs[0]",
            id="a ring with ps",
        ),
        pytest.param(
            "jobs: [{name: x, profile: {speed: {kind: ring, compute: 1, size: 4Gi}}}]\n",
            ["give both size and bandwidth"],
            "w.yaml:3",
            id="a size without a bandwidth",
        ),
        pytest.param(
            "jobs: [{name: x, profile: {speed: {kind: ring, compute: 1, size: 4Gi, bandwidth: 1Gi,"
            " transfer_s: 2}}}]\n",
            ["or transfer_s, not both"],
            "w.yaml:3",
            id="two transfer times",
        ),
        pytest.param(
            "nodes: 2\njobs: [{name: x, profile: {work: 5}, spec: {tasks: "
            "[{name: worker, replicas: 3, resources: {requests: {cpu: 1}}}]}}]\n",
            ["job 'x' requests 3 replicas at once", "only 2 fit", "add nodes"],
            "w.yaml",
            id="a gang larger than the cluster",
        ),
        pytest.param(
            "arrivals: {load: 0.9, jobs: 3, models: any}\n",
            ["load needs `profile`"],
            "w.yaml:3",
            id="a load without a profile",
        ),
        pytest.param(
            "arrivals: {load: 0.9, jobs: 3, profile: {steps: 5}}\n",
            ["give either work or"],
            "w.yaml:3",
            id="generated jobs without work",
        ),
        pytest.param("nodes: 1\n", ["no jobs"], "w.yaml:1", id="an empty workload"),
        pytest.param(
            "jobs: [{name: x, model: resnet}]\n",
            ["no model is called 'resnet'", "there are:", "vae-torch"],
            "w.yaml:3, jobs[0].model",
            id="an unknown model",
        ),
        pytest.param(
            "jobs: [{name: x, model: gru}, {name: x, model: gru}]\n",
            ["two jobs are called 'x'"],
            "w.yaml:3, jobs[1].name\n",
            id="two jobs of one name",
        ),
        pytest.param(
            "jobs: [{name: x}]\n",
            ["give one of model, manifest"],
            "w.yaml:3, jobs[0]",
            id="a job without a source",
        ),
        pytest.param(
            "jobs: [{name: x, spec: {}}]\n",
            ["has no profile", "cannot be simulated", "profile: {work"],
            "w.yaml",
            id="no profile to simulate by",
        ),
        pytest.param(
            "arrivals: {uniform: [0], jobs: 2, models: any}\n",
            ["entry 2 is missing"],
            "w.yaml:3, arrivals.uniform[1]",
            id="a pair of one",
        ),
        pytest.param(
            "arrivals: {every_s: 1, jobs: 2, models: []}\n",
            ["must not be empty"],
            "w.yaml:3, arrivals.models",
            id="no model to choose from",
        ),
        pytest.param(
            "arrivals: {uniform: [0, 9], every_s: 3, jobs: 2, models: any}\n",
            ["exactly one of uniform, every_s, poisson_s and load"],
            "w.yaml:3, arrivals",
            id="two arrival processes",
        ),
        pytest.param("nodes: 0\n" + JOB, ["greater than or equal to 1"], "w.yaml:3", id="no nodes"),
        pytest.param(
            "failures: [{at: 3, node: nowhere}]\n" + JOB,
            ["no node is called 'nowhere'"],
            "w.yaml",
            id="a failure of an unknown node",
        ),
        pytest.param("jobs: [}\n", ["invalid YAML"], "w.yaml:3", id="invalid YAML"),
        pytest.param("? [a]\n: 1\n", ["invalid YAML"], "w.yaml:3", id="a list as a key"),
        pytest.param(
            JOB + "---\n" + JOB, ["more than one document"], "w.yaml:4", id="two documents"
        ),
        pytest.param(
            "pool: flwcon\njobs: [{name: x, model: gru}]\n",
            ["no pool of models is called 'flwcon'", "did you mean 'flowcon'"],
            "w.yaml:3, pool\n",
            id="an unknown pool",
        ),
        pytest.param(
            JOB + "\nnodse: 3\n", ["unknown key 'nodse'"], "w.yaml:5\n", id="a key at the top"
        ),
        pytest.param(
            JOB + "seed: 1\n" + JOB,
            ["key 'jobs' occurs twice: lines 3 and 5"],
            "w.yaml:5\n",
            id="a key that occurs twice",
        ),
        pytest.param(
            "nodes: [{name: a, cpu: none}]\n" + JOB,
            ["headway: 'none' is not a valid amount of cores"],
            "w.yaml:3, nodes[0].cpu\n",
            id="an invalid member of a union",
        ),
        pytest.param(
            "nodes: some\n" + JOB,
            ["must be a whole number or a list, not 'some'"],
            "w.yaml:3, nodes\n",
            id="no member of a union",
        ),
        pytest.param(
            "jobs: [{name: x, spec: {tasks: [{command: python train.py}]}}]\n",
            ["must be a list, not 'python train.py'", "write [python, train.py]"],
            "tasks[0].command",
            id="a command in one string",
        ),
        pytest.param(
            "jobs: [{name: A B, profile: {work: 5}}]\n",
            ["must be lower-case letters, digits", "not 'A B'"],
            "w.yaml:3, jobs[0].name",
            id="a name of two words",
        ),
        pytest.param(
            "jobs:\n  - name: x\n    profile: {}\n",
            ["'work' is missing"],
            "w.yaml:5, jobs[0].profile.work",
            id="a missing key",
        ),
        pytest.param(
            "jobs:\n  - name: x\n    profile: {speed: {kind: rng, compute: 1}}\n",
            ["must be 'sync', 'async' or 'ring', not 'rng'"],
            "w.yaml:5, jobs[0].profile.speed.kind",
            id="an unknown value of an enumeration",
        ),
        pytest.param(
            "jobs: [{name: x, profile: {work: 5}, spec: {tasks: "
            "[{resources: {requests: {cpu: 1, memory: 4000Gi, gpu: 1}}}]}}]\n",
            ["4000Gi of memory and 1 GPU", "the largest node has 64Gi of memory and 0 GPUs"],
            "w.yaml",
            id="only the missing resources are named",
        ),
        pytest.param(
            "nodes: [{cpu: 2}, {gpu: 1}]\njobs: [{name: x, profile: {work: 5}, spec: {tasks: "
            "[{resources: {requests: {cpu: 2, gpu: 1}}}]}}]\n",
            ["2 cores and 1 GPU", "no single node has all of it"],
            "w.yaml",
            id="no node has both",
        ),
        pytest.param(
            "arrivals: {every_s: 3, models: [gru, grue]}\n",
            ["no model is called 'grue'"],
            "w.yaml:3, arrivals.models[1]",
            id="an unknown model in arrivals",
        ),
        pytest.param(
            "jobs: [{name: x, profile: {work: 5}, spec: {reports: {pattern: '('}}}]\n",
            ["invalid regular expression: missing )"],
            "w.yaml:3, jobs[0].spec.reports.pattern\n",
            id="a broken expression",
        ),
        pytest.param(
            "jobs: [{name: x, profile: {work: 5}, spec: {metric: {name: ' '}}}]\n",
            ["must not be blank"],
            "w.yaml:3, jobs[0].spec.metric.name\n",
            id="a blank metric",
        ),
        pytest.param(
            "nodes: 1000000\n" + JOB,
            ["must be less than or equal to 10000, not 1000000"],
            "w.yaml:3, nodes\n",
            id="too many nodes",
        ),
        pytest.param(
            "nodes: [{count: 6000}, {cpu: 2, count: 6000}]\n" + JOB,
            ["12000 nodes are more than the limit of 10000"],
            "w.yaml:1",
            id="too many nodes in a list",
        ),
        pytest.param(
            "nodes: [{name: ../../x}]\n" + JOB,
            ["must be letters, digits, '-', '_' and '.'", "not '../../x'"],
            "w.yaml:3, nodes[0].name\n",
            id="a node name that leaves the folder",
        ),
        pytest.param(
            "arrivals: {every_s: 1, jobs: 1000000, models: any}\n",
            ["must be less than or equal to 100000, not 1000000"],
            "w.yaml:3, arrivals.jobs\n",
            id="too many jobs",
        ),
        pytest.param(
            "jobs: [{name: x, profile: {work: 5}, spec: {tasks: [{replicas: 1000000}]}}]\n",
            ["must be less than or equal to 10000, not 1000000"],
            "w.yaml:3, jobs[0].spec.tasks[0].replicas\n",
            id="too many replicas",
        ),
        pytest.param(
            "jobs: [{name: ../../x, profile: {work: 5}}]\n",
            ["must be lower-case letters, digits", "not '../../x'"],
            "w.yaml:3, jobs[0].name\n",
            id="a job name that leaves the folder",
        ),
        pytest.param(
            "jobs: [{name: x, profile: {work: 1.0e300}}]\n",
            ["must be less than or equal to 1", "1.0e300"],
            "w.yaml:3, jobs[0].profile.work\n",
            id="an absurd amount of work",
        ),
        pytest.param(
            "jobs: [{name: x, profile: {work: 5}, spec: {totalSteps: .inf}}]\n",
            ["must be a finite number"],
            "w.yaml:3, jobs[0].spec.totalSteps\n",
            id="an infinite number of steps",
        ),
        pytest.param(
            "jobs: [{name: x, spec: {tasks: [{command: [yes]}]}}]\n",
            ["must be text, not True", 'quote it: "yes"'],
            "w.yaml:3, jobs[0].spec.tasks[0].command[0]\n",
            id="a word that YAML reads as a boolean",
        ),
        pytest.param(
            "arrivals: {uniform: [0,], jobs: 2, models: any}\n",
            ["entry 2 is missing"],
            "w.yaml:3, arrivals.uniform[1]\n",
            id="a list that ends with a comma",
        ),
        pytest.param(
            "arrivals: {every_s: 1, jobs: 2, profile: {work: [5], tasks: [{name: w}, {name: w}]}}"
            "\n",
            ["two tasks are called 'w'"],
            "w.yaml:3, arrivals.profile.tasks[1].name\n",
            id="two equal generated tasks",
        ),
        pytest.param(
            "arrivals: {every_s: 1, jobs: 2, profile: {work: [5], tasks: [{name: w, limit: 1, "
            "cpu: [2]}]}}\n",
            ["a generated job is invalid", "cpu must not exceed limits.cpu"],
            "w.yaml, arrivals.profile\n",
            id="generated requests above their limit",
        ),
        pytest.param(
            "arrivals: {every_s: 1, jobs: 2, models: any}\n"
            "jobs: [{name: job-1, profile: {work: 5}}]\n",
            ["a listed job has the name 'job-1' of a generated one"],
            "w.yaml, jobs\n",
            id="a listed job named like a generated one",
        ),
        pytest.param(
            "jobs:\n  - {name: x, profile: {work: -5}}\n  - {name: y, profile: {work: .nan}}\n",
            ["2 problems", "jobs[0].profile.work", "jobs[1].profile.work"],
            "w.yaml",
            id="several problems at once",
        ),
    ],
)
def test_an_invalid_workload_gives_one_message(headway, workload, body, says, where):
    ran = headway("simulate", workload(body))
    assert ran.code == 2
    assert "Traceback" not in ran.err
    for part in says:
        assert part in ran.err
    assert where in ran.err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("apiVersion: v1\nkind: ConfigMap\n", "its kind is 'ConfigMap'"),
        ("services:\n  web: {image: nginx}\n", "it has no key 'kind'"),
        ("- jobs\n", "the file has no keys"),
    ],
)
def test_a_file_of_another_kind_is_refused(headway, workload, text, says):
    ran = headway("simulate", workload(text, head=""))
    assert f"not a Workload: {says}" in ran.err
    assert "kind: Workload" in ran.err


def test_a_training_job_is_a_workload_of_one(headway, workload):
    head = "apiVersion: headway.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: vae}\n"
    path = workload("spec: {tasks: [{command: [sleep]}]}\n", head=head)
    (job,) = read_workload(path).jobs
    assert (job.name, job.at, job.spec.tasks[0].command) == ("vae", 0, ("sleep",))
    assert "job 'vae' has no profile" in headway("simulate", path).err
    assert "unknown key 'tsks'" in headway("simulate", workload("spec: {tsks: 1}\n", head=head)).err


@pytest.mark.parametrize(
    ("rows", "says", "line"),
    [
        ("step,loss\n1,0.9\n2,nan\n", "NaN or infinity", ":3"),
        ("1,0.9\n2,lots\n", "two numbers", ":2"),
        ("1,0.9\n", "two points", ""),
        ('1,"' + "9," * 70_000 + '"\n', "more than 65,536 characters in a line", ":1"),
        ('1,"' + "9,\n" * 70_000 + '"\n', "invalid CSV: field larger than field limit", ":43691"),
        ("1,0.9\n3,0.5\n2,0.1\n", "steps must increase", ""),
    ],
)
def test_a_curve_file_is_checked_too(headway, workload, tmp_path, rows, says, line):
    (tmp_path / "loss.csv").write_text(rows)
    path = workload("jobs: [{name: x, profile: {work: 5, curve: {file: loss.csv}}}]\n")
    ran = headway("simulate", path)
    assert ran.code == 2
    assert says in ran.err
    assert f"loss.csv{line}" in ran.err


def test_a_measured_curve_is_used(headway, workload, tmp_path):
    (tmp_path / "loss.csv").write_text("step,loss\n1,0.9\n50,0.3\n100,0.2\n")
    path = workload("jobs: [{name: x, profile: {work: 5, steps: 100, curve: {file: loss.csv}}}]\n")
    assert headway("simulate", path).code == 0


def test_missing_files_are_named(headway, workload, tmp_path):
    ran = headway("simulate", tmp_path / "no.yaml")
    assert (ran.code, "cannot read this file" in ran.err) == (2, True)
    path = workload("jobs: [{name: x, profile: {work: 5}, manifest: no.yaml}]\n")
    assert headway("simulate", path).code == 2
    curve = workload("jobs: [{name: x, profile: {work: 5, curve: {file: no.csv}}}]\n")
    assert "cannot read the loss curve" in headway("simulate", curve).err
    ran = headway("simulate", workload("", head=""))
    assert "the file is empty" in ran.err
    assert "kind: Workload" in ran.err


def test_an_unknown_policy_and_an_unknown_benchmark(headway, workload):
    ran = headway("simulate", workload(JOB), "--policy", "fare")
    assert ran.code == 2
    assert "no policy is called 'fare'" in ran.err
    assert "did you mean 'fair'" in ran.err
    assert headway("bench", "nothing").code == 2


def test_errors_as_json(headway, workload):
    ran = headway("simulate", workload("nodes: 1\n"), "--json")
    error = json.loads(ran.out)["error"]
    assert ran.code == 2
    assert error["code"] == "bad-input"
    assert "no jobs" in error["message"]
    assert error["where"].endswith("w.yaml:1")


def test_a_file_that_cannot_be_written(headway, workload):
    for option in ("--journal", "--html"):
        ran = headway("simulate", workload(JOB), "-p", "fair", option, "/proc/nowhere/x")
        assert ran.code == 2
        assert "cannot use this file" in ran.err
        assert "/proc/nowhere" in ran.err


def test_a_journal_records_one_run(headway, workload, tmp_path):
    ran = headway("simulate", workload(JOB), "--seeds", 2, "--journal", tmp_path / "j")
    assert ran.code == 2
    assert "one run" in ran.err


def test_a_gang_larger_than_this_machine_is_refused(headway, workload, tmp_path):
    asks = "[{name: worker, replicas: 3, command: [sleep], resources: {requests: {cpu: 1}}}]"
    body = f"nodes: 2\njobs: [{{name: x, spec: {{tasks: {asks}}}}}]\n"
    ran = headway("run", workload(body), "--data", tmp_path / "data")
    assert ran.code == 2
    assert "requests 3 replicas at once" in ran.err
    assert not (tmp_path / "data").exists()


def test_an_unknown_name_among_none_has_a_remedy():
    assert UnknownName("job", "x", []).hint == "there is none"
