"""`headway explain` of a job on a cluster, by what any machine with access to it can read."""

import json
from datetime import UTC, datetime
from time import time

import pytest

from fake_cluster import Headway, condition, run_all, status, task
from headway.backend.kubernetes.client.state_object import StateObject
from headway.backend.worker import EventQueue, Worker
from headway.runtime.leader_state import StateSaver


@pytest.fixture
def kubeconfig(fake, tmp_path, monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    path = tmp_path / "kubeconfig"
    server = {"server": fake.api().url}
    path.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": server}], "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }))  # fmt: skip
    return path


@pytest.fixture
def explain(headway, kubeconfig):
    def ask(job, *more):
        at = ("--backend", "kubernetes", "--kubeconfig", kubeconfig, "--home", "default")
        return headway("explain", job, *at, *more)

    return ask


@pytest.fixture
def operator(fake, backends):
    """With the policy `headway`; `save` writes its state for the next leader."""
    found = Headway(backends(), "@headway")
    worker = Worker("state", EventQueue())

    def save():
        began = found.backend.clock.began
        saver = StateSaver(
            StateObject(fake.api(), "default"), worker, found.loop, ("@headway", began)
        )
        saver.look(0.0)
        worker.close()

    found.save = save
    return found


def running(fake, operator, name="x", **spec):
    fake.submit(name, spec={"tasks": [task()], "totalSteps": 100, **spec})
    operator.until(lambda: fake.all("pods"))
    operator.until(lambda: run_all(fake) or status(fake, name).get("phase") == "Running")
    return fake.get("pods", f"{name}-worker-0-1")["metadata"]["uid"]


def test_progress_guarantee_share_and_events_are_shown(fake, operator, explain):
    uid = running(fake, operator)
    operator.backend.platform.receiver.from_pod(uid, [{"step": 40, "loss": 0.25}], "sdk")
    operator.until(lambda: status(fake, "x").get("progress", {}).get("step") == 40)
    operator.until(lambda: {e["reason"] for e in fake.all("events")} >= {"Placed", "Started"})
    operator.calm(0.2)
    operator.save()
    ran = explain("x", "--json")
    assert ran.code == 0
    found = json.loads(ran.out)
    known = found["known"]
    assert (found["job"], known["phase"]) == ("default/x", "running")
    assert (known["value"], known["step"], known["total_steps"]) == (0.25, 40, 100)
    assert known["reason"], "why it has its share"
    created = datetime.fromisoformat(fake.get("trainingjobs", "x")["metadata"]["creationTimestamp"])
    assert found["began"] == created.timestamp()
    assert abs(found["began"] + known["at_s"] - time()) < 60
    told = {event["what"]: event["why"] for event in found["events"]}
    assert told["Placed"].startswith("worker-0 on ")
    assert "created" in told
    assert "Movable=False NoCheckpoint" in told
    shown = explain("x").out
    assert "default/x: running at" in shown
    assert "step" in shown
    assert "40/100" in shown


def test_a_job_that_has_ended_says_so_by_its_conditions(fake, operator, explain):
    running(fake, operator)
    fake.pod("x-worker-0-1", "Succeeded")
    operator.until(lambda: condition(fake, "x", "Complete").get("status") == "True")
    for each in fake.all("events"):
        fake.drop("events", each["metadata"]["name"])
    found = json.loads(explain("default/x", "--json").out)
    assert found["known"]["phase"] == "succeeded"
    assert "succeeded" in [event["what"] for event in found["events"]]
    assert explain("x").out.startswith("default/x: succeeded at")


def test_without_the_right_to_read_the_state_the_rest_is_shown(fake, operator, explain):
    running(fake, operator)
    fake.refuse["GET", "configmaps", ""] = 403, "configmaps is forbidden"
    ran = explain("x")
    assert ran.code == 0
    assert "default/x: running at" in ran.out
    assert (
        "size, guarantee and ETA are unknown: the state of the operator cannot be read" in ran.err
    )
    assert "configmaps is forbidden" in ran.err


def test_events_that_repeat_say_how_often_and_those_of_other_objects_are_left_out(
    fake, operator, explain
):
    running(fake, operator)
    uid = fake.get("trainingjobs", "x")["metadata"]["uid"]
    now = datetime.fromtimestamp(time(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    for i, (of, count) in enumerate(((uid, 3), ("another", 1))):
        about = {"name": f"e{i}", "namespace": "default"}
        event = {"metadata": about, "involvedObject": {"uid": of}, "reason": f"R{i}"}
        event |= {"message": "m", "count": count, "firstTimestamp": now, "lastTimestamp": now}
        fake.put("events", event)
    told = {e["what"]: e["why"] for e in json.loads(explain("x", "--json").out)["events"]}
    assert told["R0"] == f"m (3 times, first at {now})"
    assert "R1" not in told


def test_a_job_that_does_not_exist_is_named(fake, operator, explain):
    running(fake, operator, "vae")
    ran = explain("vea")
    assert ran.code == 2
    assert "no job is called 'vea'" in ran.err
    assert "did you mean 'vae'?" in ran.err


def test_a_job_of_an_operator_is_paused_and_resumed_from_any_machine(
    fake, operator, headway, kubeconfig
):
    there = ("--backend", "kubernetes", "--kubeconfig", kubeconfig)
    running(fake, operator)
    assert "spec.suspend is now true" in headway("pause", "x", *there).out
    assert fake.get("trainingjobs", "x")["spec"]["suspend"] is True
    assert "spec.suspend is already true" in headway("pause", "default/x", *there).out
    said = json.loads(headway("resume", "x", *there, "--json").out)
    assert said == {"job": "default/x", "suspended": False, "changed": True}
    assert fake.get("trainingjobs", "x")["spec"]["suspend"] is False


@pytest.mark.parametrize(
    ("name", "why"),
    [("y", "no job is called 'y'"), ("pod/y", "cannot be paused"), ("a/b/c", "not the name")],
)
def test_what_cannot_be_paused_on_a_cluster_is_named(fake, headway, kubeconfig, name, why):
    fake.submit("x")
    there = ("--backend", "kubernetes", "--kubeconfig", kubeconfig)
    done = headway("pause", name, *there)
    assert (done.code, fake.get("trainingjobs", "x")["spec"].get("suspend")) == (2, None)
    assert why in done.err


def test_an_adopted_pod_is_explained_too(fake, operator, explain):
    inside = [{"name": "pytorch", "image": "x:1", "resources": {"requests": {"cpu": "400m"}}}]
    about = {"name": "p", "namespace": "default", "labels": {"headway.dev/adopt": "true"}}
    spec = {"nodeName": "a", "containers": inside}
    fake.put("pods", {"metadata": about, "spec": spec, "status": {"phase": "Running"}})
    operator.until(lambda: [e for e in fake.all("events") if e["reason"] == "Adopted"])
    operator.calm(0.2)
    operator.save()
    found = json.loads(explain("pod/p", "--json").out)
    assert (found["job"], found["known"]["phase"]) == ("default/pod/p", "running")
    assert found["known"]["reason"], "from the state of the operator"
    assert "Adopted" in [event["what"] for event in found["events"]]
    assert explain("default/pod/p").code == 0
    assert "no pod is called 'q'" in explain("pod/q").err
    assert "is not the name of a job" in explain("a/b/c").err


def test_a_namespace_is_reported_with_the_figures_of_what_has_ended(
    fake, operator, headway, kubeconfig, tmp_path
):
    at = ("report", "--backend", "kubernetes", "--kubeconfig", kubeconfig)
    assert "namespace default has no training jobs" in headway(*at).err
    running(fake, operator)
    fake.pod("x-worker-0-1", "Succeeded")
    operator.until(lambda: condition(fake, "x", "Complete").get("status") == "True")
    fake.submit("y", spec={"tasks": [task(cpu="9")]})
    operator.until(lambda: status(fake, "y").get("phase") == "Pending")
    found = json.loads(headway(*at, "--json").out)
    jobs = {job["job"]: job for job in found["jobs"]}
    assert (jobs["x"]["phase"], jobs["y"]["phase"]) == ("succeeded", "pending")
    took = jobs["x"]["finished_s"] - jobs["x"]["submitted_s"]
    assert found["ended"]["mean_completion_s"] == took
    assert jobs["x"]["restarts"] == 0
    page = tmp_path / "page.html"
    shown = headway(*at, "--html", page).out
    assert "succeeded" in shown
    assert "1 job" in shown
    text = page.read_text()
    assert "Namespace default" in text
    assert "pending" in text
