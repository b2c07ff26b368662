"""kube-scheduler binds: pods name their node, gangs wait for their last member or are released."""

import pytest

from fake_cluster import Headway, all_bound, begins, bound, condition, node, status, task
from headway.backend.kubernetes.placement import node_info

GANG = {"tasks": [task("ps", cpu="200m"), task("worker", 2)]}


def test_the_gates_are_removed_when_the_whole_gang_exists(fake, leader):
    fake.submit("g", spec=GANG)
    leader.until(lambda: all_bound(fake, 3))
    pods = [(what, each) for _, kind, what, each in fake.log if kind == "pods"]
    last = max(i for i, (what, _) in enumerate(pods) if what == "ADDED")
    free = min(i for i, (_, each) in enumerate(pods) if not each["spec"].get("schedulingGates"))
    assert last < free, "a pod could be bound before the last of its gang existed"
    fake.submit("single", spec={"tasks": [task(cpu="100m")]})
    pod = leader.until(lambda: fake.get("pods", "single-worker-0-1"))
    assert "schedulingGates" not in pod["spec"]
    assert "initContainers" not in pod["spec"]


def test_the_training_of_a_gang_begins_when_the_last_of_it_is_bound(fake, leader):
    fake.unschedulable = {"a": "no room"}
    fake.submit("g", spec={"tasks": [task("worker", 4)]})
    leader.until(lambda: len([n for n in bound(fake).values() if n]) == 2)
    leader.calm(0.3)
    assert not any(begins(pod) for pod in fake.all("pods"))
    fake.unschedulable.clear()
    for name in bound(fake):
        fake.schedule("default", name)
    leader.until(lambda: all(begins(pod) for pod in fake.all("pods")))
    assert all(pod["spec"]["initContainers"][0]["image"] for pod in fake.all("pods"))


def test_a_gang_with_an_unschedulable_member_is_released_whole_and_avoids_its_node(fake, backends):
    leader = Headway(backends(unschedulable_timeout=0.5, avoid_node=60.0))
    fake.put("nodes", node("c"))
    fake.unschedulable = {"a": "0/3 nodes are available: 1 node(s) didn't have free ports"}
    fake.submit("g", spec={"tasks": [task("worker", 3, cpu="600m")]})
    leader.until(lambda: condition(fake, "g", "Running").get("reason") == "Unschedulable")
    leader.until(lambda: "didn't have free ports" in condition(fake, "g", "Placed")["message"])
    leader.until(lambda: not bound(fake))
    assert status(fake, "g")["failures"] == 0
    job = leader.backend.controller.records.to_core("default/g")
    assert job.spec.tasks[0].nodes == ("b", "c")
    fake.put("nodes", node("d"))
    where = leader.until(lambda: all_bound(fake, 3))
    assert set(where.values()) == {"b", "c", "d"}


def test_a_member_for_which_room_is_being_made_is_waited_for(fake, backends):
    leader = Headway(backends(unschedulable_timeout=0.3))
    fake.unschedulable = {"a": "too little cpu", "b": "too little cpu"}
    fake.submit("x")
    name = leader.until(lambda: next(iter(bound(fake)), None))
    fake.change("pods", name, {"status": {"nominatedNodeName": "a"}})
    leader.calm(0.8)
    assert bound(fake) == {name: None}
    fake.change("pods", name, {"status": {"nominatedNodeName": None}})
    leader.until(lambda: name not in bound(fake))


def test_room_that_is_nominated_to_a_foreign_pod_is_not_taken(fake, leader):
    inside = [{"name": "c", "resources": {"requests": {"cpu": "900m"}}}]
    for where in ("a", "b"):
        about = {"name": f"preemptor-{where}", "namespace": "default"}
        pod = {"metadata": about, "spec": {"containers": inside}}
        fake.put("pods", {**pod, "status": {"phase": "Pending", "nominatedNodeName": where}})
    leader.until(lambda: len(leader.backend.platform.cluster.on_node) == 2)
    fake.submit("x")
    leader.until(lambda: condition(fake, "x", "Placed").get("reason") == "WaitingForCapacity")
    leader.calm(0.3)
    assert fake.get("pods", "x-worker-0-1") is None


@pytest.mark.parametrize("phase", ["Running", "Succeeded"])
def test_a_pod_of_the_same_name_that_is_not_ours_is_not_used(fake, leader, phase):
    about = {"name": "x-worker-0-1", "namespace": "default", "labels": {"headway.dev/job": "x"}}
    about["labels"]["headway.dev/replica"] = "worker-0"
    inside = {"containers": [{"name": "training"}], "nodeName": "b"}
    fake.put("pods", {"metadata": about, "spec": inside, "status": {"phase": phase}})
    fake.submit("x")
    leader.until(lambda: "does not belong to this job" in status(fake, "x").get("reason", ""))
    assert status(fake, "x")["failures"] == 0
    leader.until(lambda: fake.get("pods", "x-worker-0-2"))
    kept = fake.get("pods", "x-worker-0-1")["metadata"]
    assert (kept["uid"], kept.get("deletionTimestamp")) == (about["uid"], None)


def test_what_admission_adds_to_a_pod_is_not_given_to_others(fake, leader):
    fake.drop("nodes", "b", "")
    fake.submit("x")
    leader.until(lambda: all_bound(fake, 1))
    fake.pod("x-worker-0-1", "Running")
    pod = fake.get("pods", "x-worker-0-1")
    sidecar = {"name": "injected", "resources": {"requests": {"cpu": "300m"}}}
    pod["spec"]["containers"].append(sidecar)
    fake.put("pods", pod)
    leader.until(lambda: leader.backend.controller.nodes["a"].capacity.cpu == pytest.approx(0.7))
    fake.submit("y")
    leader.until(lambda: condition(fake, "y", "Placed").get("reason") == "WaitingForCapacity")
    leader.calm(0.3)
    assert fake.get("pods", "y-worker-0-1") is None


def of_class(name, cpu="900m", **more):
    template = {"spec": {"priorityClassName": name}} if name else None
    return {"tasks": [task(cpu=cpu, **({"podTemplate": template} if template else {}))], **more}


def put_class(fake, name, value, **more):
    fake.put("priorityclasses", {"metadata": {"name": name}, "value": value, **more})


def test_the_queue_is_ordered_by_priority_class_then_priority_then_arrival(fake, backends):
    put_class(fake, "urgent", 1000)
    put_class(fake, "usual", 10, globalDefault=True)
    put_class(fake, "headway-gang", 0)
    fake.put("nodes", node("a", ready=False))
    fake.put("nodes", node("b", ready=False))
    leader = Headway(backends())
    gang = {"tasks": [task(replicas=2)]}
    unknown = of_class("missing")
    specs = {"gang": gang, "default": of_class(""), "first": of_class("urgent")}
    specs |= {"second": of_class("urgent"), "eager": of_class("urgent", priority=1)}
    for name, spec in {**specs, "unknown": unknown}.items():
        fake.submit(name, spec=spec)
        leader.until(lambda name=name: condition(fake, name, "Accepted"))
    ordered = ["eager", "first", "second", "default", "gang", "unknown"]
    leader.until(lambda: waiting(leader) == ordered)
    put_class(fake, "missing", 2000)
    leader.until(lambda: waiting(leader) == ["unknown", *ordered[:-1]])
    fake.put("nodes", node("a"))
    leader.until(lambda: fake.get("pods", "unknown-worker-0-1"))
    later = Headway(backends())
    later.until(lambda: waiting(later) == ordered[:-1])


def waiting(leader):
    return [job.removeprefix("default/") for job in leader.loop.state.queue]


def test_without_the_right_to_read_classes_only_priority_counts(fake, backends):
    fake.refuse["GET", "priorityclasses", ""] = (403, "priorityclasses is forbidden")
    leader = Headway(backends())
    fake.submit("x", spec=of_class("urgent"))
    leader.until(lambda: fake.get("pods", "x-worker-0-1"))


def test_a_job_of_one_replica_has_a_host_name_if_others_may_join(fake, leader):
    fake.submit("alone")
    fake.submit("x", spec={"tasks": [task(minReplicas=1, maxReplicas=3)]})
    leader.until(lambda: len(fake.all("pods")) == 2)
    (service,) = fake.all("services")
    assert service["spec"]["selector"] == {"headway.dev/job": "x"}
    assert fake.get("pods", "x-worker-0-1")["spec"]["subdomain"] == service["metadata"]["name"]


def test_a_task_of_torchrun_whose_command_does_not_start_it_is_refused(fake, leader):
    """Each replica would train alone."""
    fake.submit("x", spec={"tasks": [task(elastic="torchrun")]})
    leader.until(lambda: condition(fake, "x", "Accepted").get("status") == "False")
    assert "it does not start torchrun" in condition(fake, "x", "Accepted")["message"]
    fake.submit("y", spec={"tasks": [task(elastic="torchrun", command=["torchrun", "train.py"])]})
    leader.until(lambda: fake.get("pods", "y-worker-0-1"))


@pytest.mark.parametrize(
    ("key", "cordoned"), [("ToBeDeletedByClusterAutoscaler", True), ("team", False)]
)
def test_a_node_that_is_about_to_be_removed_counts_as_cordoned(key, cordoned):
    leaves = node("b")
    leaves["spec"]["taints"] = [{"key": key, "effect": "NoSchedule"}]
    assert node_info.to_core(leaves, ()).cordoned is cordoned


def test_a_job_that_runs_may_use_a_node_that_joins_later(fake, leader):
    """Whatever kept others from being used when it started: here, one that is cordoned."""
    fake.change("nodes", "b", {"spec": {"unschedulable": True}}, "")
    leader.until(lambda: leader.backend.controller.nodes["b"].cordoned)
    fake.submit("x")
    leader.until(lambda: all_bound(fake, 1))
    leader.until(lambda: fake.start_bound() or status(fake, "x").get("phase") == "Running")

    def nodes():
        job = leader.loop.state.jobs["default/x"]
        return job.spec.tasks[0].nodes

    assert nodes() == ("a",)
    fake.put("nodes", node("c"))
    leader.until(lambda: nodes() == ("a", "c"))
    fake.change("nodes", "b", {"spec": {"unschedulable": False}}, "")
    leader.until(lambda: nodes() is None)
    assert status(fake, "x")["phase"] == "Running"
