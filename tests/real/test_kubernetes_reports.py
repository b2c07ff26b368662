"""Reports on a real cluster: operator and node agents from the chart, pods that print or call."""

import json
import os
import ssl
import subprocess
import sys
from contextlib import contextmanager
from http.client import HTTPSConnection
from pathlib import Path
from socket import create_connection
from time import monotonic, sleep

import image
import pytest
from elastic import digests, undisturbed
from operators import Jobs, task
from patience import end_of
from test_kubernetes_elastic import STEPS, log, training, volume
from test_kubernetes_install import Release, pods, read

from headway.backend.kubernetes.agent import pod_cgroups
from headway.deploy import render
from headway.runtime.usage_sampler import samples
from headway.spec.manifest import NAME

HOME, AGENTS = "headway", "headway-agent"
PRINTS = """
import time
for i in range(1, 10**6):
    end = time.monotonic() + 0.1
    while time.monotonic() < end: pass
    print(f"step {i}/100000 loss {1 / i:.6f}", flush=True)
"""
CALLS = """
import headway, time
run = headway.attach(total_steps=50)
for i in range(1, 51):
    run.report(i, loss=1 / i)
    print("step", i, flush=True)
    time.sleep(0.2)
"""
LONG = os.environ.get("HEADWAY_REPORTS_LONG") == "1"
"""100 MB of log, with HEADWAY_CLUSTER_LOG_SIZE=30Mi in about three files, and a minute without an
operator."""
LINES, WIDTH, AWAY = 40_000, 2500 if LONG else 100, 60 if LONG else 8
FLOODS = f"""
import time
for i in range(1, {LINES} + 1):
    print(f"step {{i}}/{LINES} loss {{1 / i:.6f}} " + "x" * {WIDTH}, flush=True)
    if i % 400 == 0: time.sleep(0.1)
time.sleep(600)
"""


@contextmanager
def installed(cluster, own_cluster, helm, **values):
    """The chart. Nodes of our own cluster keep the logs of their pods in different folders."""
    cluster.apply(*render.objects("crd", render.Values()))
    cluster.until(lambda: cluster.run("get", "tj").returncode == 0)
    made = Release(helm, cluster, HOME)
    agent = {"logs": str(own_cluster.layout.root)} if own_cluster else {}
    made.install(wait=False, replicas=1, agent=agent, **values)
    try:
        if own_cluster:
            at_once = {"rollingUpdate": {"maxUnavailable": "100%"}}
            template = {"spec": {"containers": [NODE_LOGS]}}
            patch = json.dumps({"spec": {"updateStrategy": at_once, "template": template}})
            cluster("patch", "daemonset", "headway-agent", "-n", AGENTS, "-p", patch)
        for each in (["deployment/headway", "-n", HOME], ["daemonset/headway-agent", "-n", AGENTS]):
            cluster("rollout", "status", *each, "--timeout=90s")
        yield made  # pods that are created before the leader takes reports report, too
    finally:
        cluster("delete", "tj", "--all", "--timeout=60s")
        made("uninstall", "--wait", "--timeout", "120s")
        cluster("delete", "crd", NAME, "--timeout=60s")
        cluster("delete", "namespace", HOME, "--timeout=60s")


@pytest.fixture(scope="module")
def release(cluster, own_cluster, helm):
    with installed(cluster, own_cluster, helm) as made:
        yield made


NODE_LOGS = {
    "name": "agent",
    "env": [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
    "volumeMounts": [
        {"name": "logs", "mountPath": "/host/logs", "readOnly": True, "subPathExpr": "$(NODE)/logs"}
    ],
}


@pytest.fixture(scope="module")
def outside(cluster, release, tmp_path_factory):
    """`headway run`, beside the others."""
    del release
    folder = tmp_path_factory.mktemp("outside")
    script = PRINTS.replace("10**6", "250").replace("100000", "249")
    spec = {"tasks": [task("main", cpu="50m", command=["python3", "-c", script])]}
    made = {"apiVersion": "headway.dev/v1alpha1", "kind": "Workload"}
    made["jobs"] = [{"name": "outside", "at": 0, "spec": spec}]
    (folder / "w.yaml").write_text(json.dumps(made))
    words = [sys.executable, "-m", "headway", "run", str(folder / "w.yaml"), "--json"]
    words += ["--backend", "kubernetes", "--data", str(folder), "--policy", "headway"]
    env = {**os.environ, "KUBECONFIG": cluster.kubeconfig, "HEADWAY_IMAGE": image.NAME}
    pipe = subprocess.PIPE
    with subprocess.Popen(words, env=env, stdout=pipe, stderr=pipe, text=True) as process:
        yield process, folder
        process.kill()


@pytest.fixture(scope="module")
def jobs(cluster, release, outside):
    """All of them at once, to save time."""
    del release, outside
    found = Jobs(cluster, None)
    limited = {"requests": {"cpu": "200m"}, "limits": {"cpu": "200m"}}
    prints = task(command=["python3", "-c", PRINTS])
    found.submit("prints", {**prints, "resources": limited})
    found.submit("calls", task(cpu="50m", command=["python3", "-c", CALLS]))
    found.submit("floods", task(cpu="100m", command=["python3", "-c", FLOODS]))
    return found


def progress(jobs, name):
    return jobs.status(name).get("progress") or {}


def reports(cluster, source):
    """How many the operator has taken in."""
    for line in "".join(read(cluster, pod, "metrics") for pod in pods(cluster, HOME)).splitlines():
        if line.startswith(f'headway_reports_total{{source="{source}"}} '):
            return float(line.split()[-1])
    return 0.0


class Endpoint:
    """The operator's, as a pod reaches it."""

    def __init__(self, cluster):
        leader = cluster.get("pods", namespace=HOME, labels="headway.dev/leader=true")["items"]
        (self.address,) = [p["status"]["podIP"] for p in leader]
        self.known = cluster.get("configmaps", "headway-reports", namespace=HOME)["data"]

    def __call__(self, path, body, token=""):
        trusted = ssl.create_default_context(cadata=self.known["ca.crt"])
        connection = HTTPSConnection("headway-reports.headway.svc", 8443, context=trusted)
        plain = create_connection((self.address, 8443), timeout=20)
        connection.sock = trusted.wrap_socket(plain, server_hostname=connection.host)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        connection.request("POST", path, json.dumps(body), headers)
        answer = connection.getresponse()
        found = answer.status, json.loads(answer.read())
        connection.close()
        return found


def token(cluster, pod, *words):
    about = pod["metadata"]
    return cluster(
        "create", "token", pod["spec"]["serviceAccountName"], "-n", about["namespace"], *words,
        "--bound-object-kind=Pod", f"--bound-object-name={about['name']}",
    ).strip()  # fmt: skip


def test_a_script_that_prints_and_one_that_calls_show_loss_and_steps(cluster, jobs):
    cluster.until(lambda: progress(jobs, "prints").get("step", 0) > 5, patience=60)
    said = progress(jobs, "prints")
    assert said["totalSteps"] == 100_000
    assert said["metric"] == "loss"
    assert float(said["value"]) == pytest.approx(1 / said["step"], rel=0.5)
    cluster.until(lambda: jobs.phase("calls") == "Succeeded", patience=60)
    cluster.until(lambda: progress(jobs, "calls").get("done") == "100%", patience=30)
    last = progress(jobs, "calls")
    assert (last["step"], last["totalSteps"], float(last["value"])) == (50, 50, 0.02)
    table = cluster("get", "tj").splitlines()
    assert table[0].split()[:4] == ["NAME", "PHASE", "PROGRESS", "ETA"]
    assert any(line.split()[:3] == ["calls", "Succeeded", "100%"] for line in table)


def test_usage_is_that_of_the_cgroup(cluster, jobs):
    (pod,) = jobs.pods("prints")
    group = pod_cgroups.find("/sys/fs/cgroup", pod["metadata"]["uid"])
    if group is None:
        pytest.skip("tool not installed: the nodes are other machines")
    began, before = monotonic(), group.read().cpu
    sleep(12)  # as long as it is averaged
    last = progress(jobs, "prints")["updateTime"]
    cluster.until(lambda: progress(jobs, "prints")["updateTime"] != last, patience=30)
    used = (group.read().cpu - before) / (monotonic() - began)
    said = float(progress(jobs, "prints")["cpu"].removesuffix("m")) / 1000
    assert said == pytest.approx(used, rel=0.05)
    memory = float(progress(jobs, "prints")["memory"].removesuffix("Mi"))
    assert memory == pytest.approx(group.read().memory / 2**20, rel=0.05, abs=1)


def test_no_step_is_lost_when_the_kubelet_rotates_a_log(cluster, own_cluster, jobs):
    (pod,) = jobs.pods("floods")
    cluster.until(lambda: progress(jobs, "floods").get("step") == LINES, patience=90)
    if own_cluster:
        folder = own_cluster.layout.root / pod["spec"]["nodeName"] / "logs"
        (there,) = Path(folder).glob(f"*_{pod['metadata']['uid']}")
        rotated = [p.name for p in (there / "training").iterdir() if p.name != "0.log"]
        assert len(rotated) >= 3, rotated
    least = LINES + progress(jobs, "prints")["step"]
    assert least <= reports(cluster, "log") <= least + 250 + 400, "`outside` and the time since"


def test_a_client_is_identified_by_its_token(cluster, jobs):
    ask, pod = Endpoint(cluster), jobs.pods("prints")[0]
    body = {"reports": [{"step": 999_999, "loss": 7.0}]}
    assert ask("/v1/reports", body)[0] == 401
    assert ask("/v1/reports", body, "nonsense")[0] == 401
    assert ask("/v1/reports", body, token(cluster, pod))[0] == 401, "another audience"
    free = cluster("create", "token", "default", "--audience=headway").strip()
    assert ask("/v1/reports", body, free)[0] == 403, "not bound to a pod"
    mine = token(cluster, jobs.pods("floods")[0], "--audience=headway")
    named = {**body, "pod": pod["metadata"]["uid"], "uid": pod["metadata"]["uid"]}
    assert ask("/v1/reports", named, mine) == (200, {"checkpoint": False})
    cluster.until(lambda: progress(jobs, "floods").get("step") == 999_999, patience=30)
    assert progress(jobs, "prints")["step"] < 900_000
    about = {"pods": {pod["metadata"]["uid"]: {"log": [[999_999, 7.0, 7.0, 1, None]]}}}
    assert ask("/v1/node", about, mine)[0] == 403, "no agent"
    agents = cluster.get("pods", namespace=AGENTS)["items"]
    other = next(a for a in agents if a["spec"]["nodeName"] != pod["spec"]["nodeName"])
    status, answer = ask("/v1/node", about, token(cluster, other, "--audience=headway"))
    assert (status, pod["metadata"]["uid"] in answer["pods"]) == (200, False)
    assert progress(jobs, "prints")["step"] < 900_000, "of another node"


def test_a_run_from_outside_shows_loss_and_usage(jobs, outside):
    """Its pods report to the operator, which passes that on."""
    del jobs
    process, folder = outside
    done = end_of(process, 120)
    assert done.returncode == 0, done.stderr
    usage = samples(folder / "runs" / "latest" / "usage.jsonl")
    seen = [line["replicas"].get("outside/main-0", {}) for line in usage]
    reported = [each for each in seen if "value" in each]
    assert reported, seen
    assert reported[-1]["step"] > 20
    assert reported[-1]["value"] == pytest.approx(1 / reported[-1]["step"], rel=0.5)
    assert max(each["cpu"] for each in seen if "cpu" in each) > 0.05


def test_reports_of_the_time_without_an_operator_arrive(cluster, jobs):
    slow = CALLS.replace("(1, 51)", "(1, 1001)").replace("=50)", "=1000)")
    jobs.submit("waits", task(cpu="50m", command=["python3", "-c", slow]))
    cluster.until(lambda: progress(jobs, "waits").get("step", 0) >= 1, patience=60)
    cluster("scale", "deployment/headway", "-n", HOME, "--replicas=0")
    cluster.until(lambda: not pods(cluster, HOME), patience=60)
    before = {name: printed(cluster, jobs, name) for name in ("prints", "waits")}
    sleep(AWAY)
    cluster("scale", "deployment/headway", "-n", HOME, "--replicas=1")
    cluster("rollout", "status", "deployment/headway", "-n", HOME, "--timeout=60s")
    for name, source in (("waits", "sdk"), ("prints", "log")):
        least = before[name] + 4 * AWAY
        cluster.until(lambda name=name, n=least: progress(jobs, name)["step"] >= n, patience=60)
        missed = progress(jobs, name)["step"] - before[name]
        assert reports(cluster, source) >= missed, "each step, not only the last ones"


def printed(cluster, jobs, name):
    """The step that a job has reached."""
    (pod,) = [p["metadata"]["name"] for p in jobs.pods(name)]
    return int(cluster.log(pod).splitlines()[-1].split()[1].partition("/")[0])


def test_a_script_that_calls_the_sdk_saves_when_it_is_asked_and_is_scaled(cluster, jobs, tmp_path):
    kept = tmp_path / "kept"
    tasks = training("ps-sync", replicas=1, most=2, cpu="50m", **volume(kept))
    jobs.submit("saves", *tasks, checkpoint={"mode": "sdk", "graceSeconds": 60})
    cluster.until(lambda: "step 5/" in log(cluster, "saves-worker-0-1"))
    cluster("scale", "tj", "saves", "--replicas=2")
    cluster.until(lambda: "worker-1 joined" in log(cluster, "saves-ps-0-2"))
    assert json.loads((kept / "checkpoint" / "LATEST").read_text())["step"] >= 5
    cluster.until(lambda: jobs.phase("saves") == "Succeeded")
    assert jobs.status("saves")["failures"] == 0
    assert digests(log(cluster, "saves-worker-0-2")) == undisturbed(STEPS)
