"""Gangs on a real cluster of four nodes, by an operator with exactly the rights that we ship."""

import json
import os
import signal
import subprocess
import sys
from contextlib import closing, contextmanager, suppress
from http.client import HTTPSConnection
from pathlib import Path
from ssl import CERT_NONE, create_default_context
from time import monotonic, sleep

import image
import pytest
import yaml
from local import note
from operators import ENDS, HOME, SLEEPS, Operator, bound, nodes, task, trains

from headway.backend.kubernetes.client.fatal_thread import LOST
from headway.deploy import render
from headway.deploy.render import Values

STRIDE = int(os.environ.get("HEADWAY_CRASH_STRIDE", "0"))
LONG = STRIDE == 1
CRASHES = range(1, 101, STRIDE) if STRIDE else [9, 21]
"""At which write the operator is killed: commands and calls (lease, status, pods, gates)."""
NUMPY = Path(__file__).parents[2] / "examples" / "distributed.yaml"


def test_kubelets_authorize_callers_with_the_api_server(cluster, installed_operator):
    """So the tests of rights mean something: neither anybody nor the operator may."""
    (node, *_) = cluster.get("nodes")["items"]
    (address,) = [a["address"] for a in node["status"]["addresses"] if a["type"] == "InternalIP"]

    context = create_default_context()
    context.check_hostname, context.verify_mode = False, CERT_NONE  # it signs its own

    def ask(token=""):
        there = HTTPSConnection(address, 10250, timeout=20, context=context)
        there.request("GET", "/pods", headers={"Authorization": f"Bearer {token}"} if token else {})
        with closing(there), there.getresponse() as answer:
            return answer.status

    assert ask() == 401
    assert ask("nonsense") == 401
    assert ask(installed_operator) == 403
    rights = yaml.safe_load(Path(cluster.kubeconfig).read_text())["users"][0]["user"]["token"]
    assert ask(rights) == 200


def test_a_gang_of_three_where_two_fit_holds_nothing_until_it_starts_whole(cluster, jobs):
    first, second, *_ = nodes(cluster)
    jobs.occupy("other-1", first, "200m")
    jobs.occupy("other-2", second, "200m")
    cluster.until(lambda: len(cluster.get("pods")["items"]) == 2)
    jobs.submit("gang", task(replicas=3))
    cluster.until(lambda: jobs.condition("gang", "Placed").get("reason") == "WaitingForCapacity")
    sleep(2)
    assert jobs.pods("gang") == []
    assert jobs.status("gang").get("placement") is None
    jobs.submit("small", task(command=ENDS))  # what waits blocks nobody who fits
    cluster.until(lambda: jobs.phase("small") == "Succeeded")
    cluster("delete", "pod", "other-1", "--grace-period=0", "--force")
    cluster.until(lambda: len(jobs.running("gang")) == 3)
    assert len(set(jobs.running("gang"))) == 3
    assert jobs.phase("gang") in ("Starting", "Running")


def test_a_gang_of_which_kube_scheduler_cannot_bind_one_never_runs_in_part(cluster, jobs):
    """No policy sees host ports: the node of one member has its port taken. The gang is released
    whole, in the scheduler's words, and then started without that node.
    """
    first, second, third, fourth = nodes(cluster)
    web = {"containers": [{"name": "training", "ports": [{"containerPort": 80, "hostPort": 80}]}]}
    holder = {"name": "main", "image": image.NAME, "command": SLEEPS}
    holder["ports"] = [{"containerPort": 80, "hostPort": 80}]
    spec = {"nodeName": first, "containers": [holder], "terminationGracePeriodSeconds": 1}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "holder"}, "spec": spec}
    cluster.apply(pod)
    jobs.occupy("busy", fourth, "250m")
    cluster.until(lambda: len(cluster.get("pods")["items"]) == 2)
    jobs.submit("gang", task(replicas=3, podTemplate={"spec": web}))

    def attempt(number):
        ending = f"-{number}"
        return [p for p in jobs.pods("gang") if p["metadata"]["name"].endswith(ending)]

    cluster.until(lambda: jobs.condition("gang", "Running").get("reason") == "Unschedulable")
    cluster.until(lambda: sum(bound(p) for p in attempt(1)) == 2)
    assert not any(trains(p) for p in attempt(1)), "two of three run"
    told = cluster.until(lambda: jobs.told("gang", "Released"))
    assert "didn't have free ports" in told[0]
    cluster("delete", "pod", "busy", "--grace-period=0", "--force")
    cluster.until(lambda: len(jobs.running("gang")) == 3)
    assert set(jobs.running("gang")) == {second, third, fourth}
    assert jobs.status("gang")["failures"] == 0


def test_two_gangs_that_fit_only_alone_run_one_after_the_other(jobs, tmp_path):
    with watched_pods(jobs.cluster, tmp_path / "pods") as history:
        for name in ("one", "two"):
            jobs.submit(name, task(replicas=3, command=ENDS))
        for name in ("one", "two"):
            jobs.cluster.until(lambda name=name: jobs.phase(name) == "Succeeded")
    there, seen = set(), []
    for kind, pod in history():
        holds = kind != "DELETED" and bound(pod)
        (there.add if holds else there.discard)(pod["metadata"]["name"])
        names = [each[:3] for each in there]
        seen.append((names.count("one"), names.count("two")))
    assert (3, 0) in seen
    assert any(two == 3 for _, two in seen)
    # Four pods fit. The second starts when two of the first have ended, and never before.
    assert not any(one > 1 and two for one, two in seen), seen


@contextmanager
def watched_pods(cluster, path):
    """Every change of a pod, in the order in which the API server made them; none is missed."""
    words = ["get", "pods", "--watch", "--output-watch-events", "-o", "json"]
    with path.open("w") as file:
        told = [cluster.program, "--kubeconfig", cluster.kubeconfig, *words]
        watch = subprocess.Popen(told, stdout=file)

    def history():
        rest, decoder = path.read_text().lstrip(), json.JSONDecoder()
        while rest:
            with suppress(ValueError):  # the last one, which is not complete
                event, end = decoder.raw_decode(rest)
                yield event["type"], event["object"]
                rest = rest[end:].lstrip()
                continue
            return

    try:
        yield history
    finally:
        watch.kill()
        watch.wait()


def test_a_member_that_its_kubelet_declines_releases_the_gang_within_five_seconds(cluster, jobs):
    """No scheduler can see it coming: kubelets refuse pods that would change the kernel."""
    odd = {"spec": {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "65536"}]}}}
    jobs.submit("gang", task(replicas=2, cpu="100m"), task("odd", cpu="100m", podTemplate=odd))

    def first():
        return [p for p in jobs.pods("gang") if p["metadata"]["name"].endswith("-1")]

    cluster.until(lambda: any(p["status"]["phase"] == "Failed" for p in first()))
    cluster.until(lambda: not any(bound(p) for p in first()), patience=5)
    told = cluster.until(lambda: jobs.told("gang", "Released"))
    assert "SysctlForbidden" in told[0]
    assert jobs.status("gang").get("failures", 0) == 0


def test_one_manifest_with_ps_and_workers_and_a_single_job_succeed(cluster, jobs):
    text = NUMPY.read_text().replace("headway-workloads", image.NAME)
    cluster("apply", "-f", "-", text=text)
    jobs.submit("single", task("main", command=ENDS))
    for name in ("distributed", "single"):
        cluster.until(lambda name=name: jobs.phase(name) in ("Succeeded", "Failed"))
        assert jobs.phase(name) == "Succeeded", jobs.status(name)
        cluster.until(lambda name=name: "Succeeded" in jobs.events(name))
        # A kubelet may report a short container as succeeded without ever reporting it running.
        assert jobs.events(name) in (["Placed", "Started", "Succeeded"], ["Placed", "Succeeded"])
        said = jobs.status(name)
        assert said["enqueueTime"] <= said["startTime"] <= said["finishTime"]
        assert jobs.condition(name, "Complete")["status"] == "True"
    told = cluster("get", "tj", "distributed")
    assert "Succeeded" in told
    words = [sys.executable, "-m", "headway", "explain", "default/distributed"]
    told = subprocess.run(
        [*words, "--data", str(jobs.operator.folder)], capture_output=True, text=True, check=True
    )
    assert "least requested node" in told.stdout


def test_what_is_missing_becomes_a_condition_that_says_what_to_do(cluster, jobs):
    jobs.submit("image", {**task(), "image": "headway.test/none:1"}, backoffLimit=0)
    jobs.submit("volume", task(mounts=[{"path": "/data", "claim": "none"}]))
    jobs.submit("label", task(nodeSelector={"disk": "none"}))
    cluster.until(
        lambda: (
            jobs.condition("image", "Running").get("reason") in ("ErrImagePull", "ImagePullBackOff")
        )
    )
    assert "check the name of the image" in jobs.condition("image", "Running")["message"]
    cluster.until(lambda: jobs.condition("label", "Placed").get("reason") == "Unschedulable")
    assert "not labelled disk=none" in jobs.condition("label", "Placed")["message"]
    assert jobs.pods("label") == []
    cluster.until(lambda: jobs.condition("volume", "Running").get("reason") == "Unschedulable")
    said = jobs.condition("volume", "Running")["message"]
    assert 'persistentvolumeclaim "none" not found' in said, "kube-scheduler's own words"


def test_missing_rights_become_a_condition_that_says_what_to_do(cluster, jobs):
    """And so does a quota; once they are there the job starts by itself."""
    (rights,) = [
        o
        for o in render.stream(Values(namespace=HOME))
        if o["kind"] == "ClusterRole" and o["metadata"]["name"] == "headway"
    ]
    rules = [
        {**r, "verbs": [v for v in r["verbs"] if v != "create"]} if "pods" in r["resources"] else r
        for r in rights["rules"]
    ]
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}}
    cluster.apply({**rights, "rules": rules}, {**quota, "spec": {"hard": {"pods": "0"}}})
    try:
        jobs.submit("single", task(command=ENDS))
        for text in ("headway kubernetes manifests", "a quota or a policy"):
            cluster.until(
                lambda text=text: text in jobs.condition("single", "Placed").get("message", "")
            )
            assert jobs.pods("single") == []
            cluster.apply(rights)
    finally:
        cluster.apply(rights)
        cluster("delete", "quota", "none")
    cluster.until(lambda: jobs.phase("single") == "Succeeded")


def test_a_workload_runs_on_the_cluster_and_takes_its_jobs_along(cluster, jobs, tmp_path):
    """Beside the operator, which leaves the jobs of a run alone."""
    text = NUMPY.read_text().replace("headway-workloads", image.NAME)
    (tmp_path / "distributed.yaml").write_text(text)
    single = {"name": "single", "at": 1, "spec": {"tasks": [task("main", command=ENDS)]}}
    listed = [{"name": "both", "at": 0, "manifest": "distributed.yaml"}, single]
    made = {"apiVersion": "headway.dev/v1alpha1", "kind": "Workload", "jobs": listed}
    (tmp_path / "w.yaml").write_text(yaml.safe_dump(made))
    words = [sys.executable, "-m", "headway", "run", str(tmp_path / "w.yaml"), "--json"]
    words += ["--backend", "kubernetes", "--data", str(tmp_path), "--policy", "headway"]
    env = {**os.environ, "KUBECONFIG": cluster.kubeconfig, "HEADWAY_IMAGE": image.NAME}
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(done.stdout)
    assert result["backend"] == "kubernetes"
    assert [j["outcome"] for j in result["per_job"]] == ["succeeded"] * 2
    cluster.until(lambda: not cluster.get("trainingjobs")["items"])
    assert jobs.operator.process.poll() is None


if LONG:  # it is waiting that takes the time

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
    def test_another_leads_when_the_leader_goes(cluster, operator, jobs, tmp_path, number):
        """At once if it says so, within the lease and a little if it is killed: 17 s in all."""
        token = yaml.safe_load((operator.folder / "kubeconfig").read_text())["users"][0]["user"]
        other = Operator(cluster, tmp_path, token["token"]).start()
        try:
            cluster.until(lambda: "waits for the lease" in other.log())
            sleep(2.5)
            assert "leads" not in other.log()
            began = monotonic()
            operator.end(number)
            jobs.submit("x", task(command=ENDS))
            cluster.until(lambda: jobs.status("x").get("enqueueTime"))
            assert monotonic() - began < (5 if number == signal.SIGTERM else 18)
            cluster.until(lambda: jobs.phase("x") == "Succeeded")
        finally:
            other.end()
            operator.end()
            led = operator.log().count(" leads")
            operator.start()
            cluster.until(lambda: operator.log().count(" leads") > led)


@pytest.mark.parametrize("writes", CRASHES)
def test_the_next_leader_completes_what_was_begun(cluster, operator, jobs, writes):
    """The operator is killed at one of its writes; the next one finds what it left."""
    operator.end()
    jobs.submit("gang", task(replicas=3, command=ENDS))
    operator.start(HEADWAY_CRASH_AFTER_WRITES=str(writes))
    died = operator.process.poll
    cluster.until(lambda: died() is not None or jobs.phase("gang") == "Succeeded")
    code = operator.end()
    assert code in (0, -signal.SIGKILL)  # the last of them are undisturbed
    note("crash points", int(code == -signal.SIGKILL))
    # Rather than wait for the end of its lease:
    cluster("delete", "lease", "headway", "--namespace", HOME, "--ignore-not-found")
    led = operator.log().count(" leads")
    operator.start()
    cluster.until(lambda: operator.log().count(" leads") > led)  # it handles SIGTERM by now
    cluster.until(lambda: jobs.phase("gang") == "Succeeded")
    assert jobs.status("gang")["failures"] == 0
    assert len(jobs.pods("gang")) <= 3


if LONG:  # it waits for three operators

    def test_an_operator_that_was_paused_while_another_led_writes_nothing_more(
        cluster, operator, jobs, tmp_path
    ):
        """It is stopped in the middle of its work, and continues when the job is another's."""
        token = yaml.safe_load((operator.folder / "kubeconfig").read_text())["users"][0]["user"]
        other = Operator(cluster, tmp_path, token["token"])
        jobs.submit("gang", task(replicas=2))
        cluster.until(lambda: jobs.phase("gang") == "Running")
        operator.process.send_signal(signal.SIGSTOP)
        try:
            # Rather than wait for the end of its lease:
            cluster("delete", "lease", "headway", "--namespace", HOME)
            other.start()
            cluster.until(lambda: " leads" in other.log())
            cluster("delete", "pod", "gang-worker-0-1", "--grace-period=1", "--wait=false")
            cluster.until(lambda: jobs.status("gang")["attempt"] == 2)
            leader = by(jobs, "gang")
            operator.process.send_signal(signal.SIGCONT)
            assert operator.process.wait(120) == LOST, operator.log()
            cluster.until(lambda: jobs.phase("gang") == "Running")
            assert by(jobs, "gang") == leader
            assert jobs.status("gang")["attempt"] == 2
        finally:
            operator.process.send_signal(signal.SIGCONT)
            operator.end()
            other.end()
            led = operator.log().count(" leads")
            operator.start()
            cluster.until(lambda: operator.log().count(" leads") > led)


def by(jobs, name):
    """The number of the leader that wrote its status."""
    return json.loads(jobs.status(name)["state"])["by"]
