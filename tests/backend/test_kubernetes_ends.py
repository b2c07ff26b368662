"""Ends that are not what they seem: deleted pods and jobs, late leaders, killed sidecars."""

import json

import pytest

from fake_cluster import Headway, all_bound, bound, condition, node, run_all, status, task
from headway.backend.kubernetes.client.api import jobs_path
from headway.backend.kubernetes.platform import pod_calls
from headway.backend.kubernetes.platform.cleanup import remove_finalizers
from headway.errors import Declined, Unreachable

LONG_AGO, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:00:30Z"
TARGET = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}


def running(fake, leader, name="x", **spec):
    fake.submit(name, spec={"tasks": [task()], "backoffLimit": 0, **spec})
    leader.until(lambda: all_bound(fake, 1))
    run_all(fake)
    leader.until(lambda: status(fake, name).get("phase") == "Running")


def over(code, at):
    return [{"name": "training", "state": {"terminated": {"exitCode": code, "finishedAt": at}}}]


def test_a_drained_job_that_saves_and_exits_with_0_is_resumed(fake, leader):
    running(fake, leader)
    fake.change("pods", "x-worker-0-1", {"status": {"conditions": [TARGET]}})
    fake.delete("x-worker-0-1")
    fake.ended("x-worker-0-1", code=0)
    leader.until(lambda: fake.get("pods", "x-worker-0-2"))
    assert status(fake, "x")["failures"] == 0
    assert fake.get("pods", "x-worker-0-1") is None, "its finalizer is removed"


def test_the_exit_code_of_a_pod_that_was_deleted_while_no_operator_ran_is_not_lost(fake, backends):
    old = Headway(backends())
    running(fake, old)
    fake.pod("x-worker-0-1", "Succeeded", containerStatuses=over(0, LONG_AGO))
    api = fake.api()
    api.delete("/api/v1/namespaces/default/pods/x-worker-0-1", grace=30)
    new = Headway(backends())
    new.until(lambda: status(fake, "x").get("finishTime"))
    assert status(fake, "x")["phase"] == "Succeeded"
    new.until(lambda: not fake.all("pods"))


def test_a_pod_that_ends_after_it_was_asked_to_stop_has_not_succeeded(fake, leader):
    running(fake, leader, backoffLimit=1)
    deleted = {"deletionTimestamp": LATER, "deletionGracePeriodSeconds": 30}
    change = {"metadata": deleted}
    change["status"] = {"phase": "Succeeded", "containerStatuses": over(0, LONG_AGO)}
    fake.change("pods", "x-worker-0-1", change)
    leader.until(lambda: fake.get("pods", "x-worker-0-2"))
    assert status(fake, "x")["failures"] == 1


def test_a_job_that_is_being_deleted_is_not_placed(fake, leader):
    fake.submit("x", deletionTimestamp=LONG_AGO, finalizers=["foregroundDeletion"])
    leader.until(lambda: status(fake, "x").get("phase") == "Cancelled")
    assert not fake.all("pods")


@pytest.mark.parametrize("later", [False, True])
def test_a_running_job_that_is_deleted_slowly_is_stopped(fake, backends, later):
    """By this leader, or by the next."""
    leader = Headway(backends())
    running(fake, leader)
    leaving = {"deletionTimestamp": LONG_AGO, "finalizers": ["foregroundDeletion"]}
    if later:
        leader.backend.platform.cluster.close()
        leader = None
    fake.change("trainingjobs", "x", {"metadata": leaving})
    leader = leader or Headway(backends())
    leader.until(lambda: not fake.all("pods"))
    leader.until(lambda: status(fake, "x").get("phase") == "Cancelled")


def test_pods_of_a_job_that_was_deleted_while_no_operator_ran_go(fake, backends):
    old = Headway(backends())
    running(fake, old)
    old.backend.platform.cluster.close()
    fake.drop("trainingjobs", "x")
    fake.delete("x-worker-0-1")  # by the garbage collector
    fake.ended("x-worker-0-1")
    assert fake.all("pods"), "its finalizer keeps it"
    new = Headway(backends())
    new.until(lambda: not fake.all("pods"))


def test_a_job_whose_sidecar_is_killed_after_its_training_has_succeeded(fake, leader):
    running(fake, leader)
    killed = {"name": "sidecar", "state": {"terminated": {"exitCode": 137}}}
    fake.pod("x-worker-0-1", "Failed", containerStatuses=[*over(0, LONG_AGO), killed])
    leader.until(lambda: status(fake, "x").get("finishTime"))
    assert status(fake, "x")["phase"] == "Succeeded"


def test_an_orphan_that_runs_gets_its_grace_period(fake, backends):
    """Of an attempt that the status no longer mentions: it may be saving a checkpoint."""
    leader = Headway(backends())
    running(fake, leader, backoffLimit=3)
    orphan = fake.get("pods", "x-worker-0-1")
    fake.pod("x-worker-0-1", "Failed", containerStatuses=over(3, LONG_AGO))
    leader.until(lambda: fake.get("pods", "x-worker-0-2"))
    fake.kubelets = False
    orphan["metadata"]["uid"] = "another"

    def leaving():
        return fake.get("pods", "x-worker-0-1")["metadata"].get("deletionTimestamp")

    fake.drop("pods", "x-worker-0-1")
    fake.put("pods", orphan)
    leader.until(leaving)
    assert fake.get("pods", "x-worker-0-1")["metadata"]["deletionGracePeriodSeconds"] == 30


def test_a_leader_that_was_paused_leaves_the_pods_of_the_next_one_alone(fake, backends, caplog):
    """It learns of them before it learns who wrote the job's status."""
    old = Headway(backends())
    running(fake, old, backoffLimit=3)
    fake.stale.add("trainingjobs")
    new = Headway(backends())
    fake.pod("x-worker-0-1", "Failed", containerStatuses=over(3, LONG_AGO))
    new.until(lambda: bound(fake).get("x-worker-0-2"))
    run_all(fake)
    old.until(lambda: "another process leads" in caplog.text)
    old.calm(1.0)
    assert "deletionTimestamp" not in fake.get("pods", "x-worker-0-2")["metadata"]


def test_no_write_concerns_another_object_of_the_same_name(fake, leader):
    """What this process last saw is gone, and another one has its name."""
    running(fake, leader)
    fake.stale |= {"pods", "trainingjobs"}
    api, seen = fake.api(), fake.get("pods", "x-worker-0-1")
    job = fake.drop("trainingjobs", "x")
    fake.drop("pods", "x-worker-0-1")
    new = fake.put("pods", {**seen, "metadata": {**seen["metadata"], "uid": "another"}})
    version = new["metadata"]["resourceVersion"]
    with pytest.raises(Declined):
        pod_calls.proceed(api, seen)
    pod_calls.unfinalize(api, seen)
    path = "/api/v1/namespaces/default/pods/x-worker-0-1"
    assert not pod_calls.delete(api, path, seen["metadata"]["uid"], 0)
    assert fake.get("pods", "x-worker-0-1")["metadata"]["resourceVersion"] == version
    platform = leader.backend.platform
    other = fake.put("trainingjobs", {**job, "metadata": {**job["metadata"], "uid": "another"}})
    record = platform.records["default/x"]
    record.version = other["metadata"]["resourceVersion"]
    gone = []
    platform.writer.write(record, lambda: gone.append("x") or ())
    leader.until(lambda: gone)
    assert fake.get("trainingjobs", "x") == other


def test_a_call_that_is_to_be_repeated_later_does_not_release_the_gang(fake, leader):
    fake.busy = {("POST", "pods"): 2, ("PATCH", "pods"): 2, ("PATCH", "trainingjobs"): 2}
    fake.submit("g", spec={"tasks": [task("worker", 3)]})
    leader.until(lambda: all_bound(fake, 3))
    assert status(fake, "g")["attempt"] == 1
    assert fake.busy == dict.fromkeys(fake.busy, 0)


def test_a_write_that_is_repeated_later_is_not_made_after_another_leads(fake):
    """Its process may have been paused while it waited."""
    fake.submit("x")
    fake.busy["PATCH", "trainingjobs"] = 1
    api, leads = fake.api(), iter([True, False])
    api.may_write = lambda: next(leads)
    with pytest.raises(Unreachable, match="another process leads"):
        api.patch(f"{jobs_path('default')}/x", {"metadata": {"labels": {"a": "b"}}})
    assert "labels" not in fake.get("trainingjobs", "x")["metadata"]


def leader_of(fake, name):
    return json.loads(status(fake, name)["state"])["by"][0]


@pytest.mark.parametrize("sees", [False, True])
def test_a_leader_that_was_paused_writes_nothing_after_another_has(fake, backends, caplog, sees):
    """Whether or not it learns first that another one wrote."""
    old = Headway(backends())
    running(fake, old)
    assert leader_of(fake, "x") == 1
    if not sees:
        fake.stale.add("trainingjobs")
    new = Headway(backends())
    fake.pod("x-worker-0-1", "Failed", containerStatuses=over(3, LONG_AGO))
    new.until(lambda: status(fake, "x").get("finishTime"))
    before = fake.get("trainingjobs", "x")
    tried = fake.calls.count(("PATCH", "trainingjobs", "x", "status"))
    if sees:
        old.until(lambda: "another process leads" in caplog.text)
        old.calm(0.5)
    else:
        old.until(lambda: fake.calls.count(("PATCH", "trainingjobs", "x", "status")) > tried)
    assert fake.get("trainingjobs", "x") == before
    assert leader_of(fake, "x") == 2


def test_a_job_that_users_change_at_the_same_time_is_still_written(fake, leader):
    fake.submit("x", spec={"tasks": [task(cpu="20")]})
    leader.until(lambda: condition(fake, "x", "Placed").get("reason") == "Unschedulable")
    fake.submit("y")
    leader.until(lambda: bound(fake).get("y-worker-0-1"))
    for i in range(20):
        fake.change("trainingjobs", "y", {"metadata": {"annotations": {"note": str(i)}}})
    run_all(fake)
    leader.until(lambda: status(fake, "y")["phase"] == "Running")


def test_a_manifest_that_is_too_large_is_refused_by_name_and_harms_no_other(fake, leader):
    fake.submit("many", spec={"tasks": [task(replicas=5000)]})
    fake.submit("absurd", spec={"tasks": [task(replicas=1_000_000)]})
    notes = {"metadata": {"annotations": {"note": "x" * (1 << 20)}}}
    fake.submit("large", spec={"tasks": [task(podTemplate=notes)]})
    fake.submit("good")
    leader.until(lambda: bound(fake).get("good-worker-0-1"))
    for name, said in (
        ("many", "spec.tasks: 5000 replicas"),
        ("absurd", "spec.tasks[0].replicas"),
        ("large", "spec.tasks[0].podTemplate: 1048"),
    ):
        leader.until(lambda name=name: status(fake, name).get("phase") == "Failed")
        assert said in condition(fake, name, "Accepted")["message"]


def test_what_is_computed_of_a_pending_job_does_not_grow_with_its_replicas(fake, leader):
    """Each pod names all hosts: building all pods of one job took the memory of all others."""
    records, sizes = leader.backend.platform.records, []
    for replicas in (2, 1000):
        name = f"of-{replicas}"
        fake.submit(name, spec={"tasks": [task(replicas=replicas, cpu="20")]})
        leader.until(lambda name=name: condition(fake, name, "Placed"))
        sizes.append(len(json.dumps(records[f"default/{name}"].sample_pods())))
    assert sizes[1] < sizes[0] + 100


def test_without_an_operator_a_cleanup_lets_pods_go(fake, leader):
    running(fake, leader)
    leader.backend.platform.cluster.close()
    fake.delete("x-worker-0-1")
    fake.ended("x-worker-0-1")
    assert remove_finalizers(fake.api(), "another") == 0
    assert len(fake.all("pods")) == 1
    assert remove_finalizers(fake.api()) == 1
    assert not fake.all("pods")


def test_a_job_on_a_node_that_is_not_ready_is_not_shown_as_running(fake, leader):
    running(fake, leader)
    where = bound(fake)["x-worker-0-1"]
    fake.put("nodes", node(where, ready=False))
    leader.until(lambda: condition(fake, "x", "Running")["status"] == "Unknown")
    assert f"node {where} is not ready" in condition(fake, "x", "Running")["message"]
    fake.put("nodes", node(where))
    leader.until(lambda: condition(fake, "x", "Running")["status"] == "True")


@pytest.mark.parametrize("reason", ["DeadlineExceeded", "Evicted"])
def test_a_pod_that_its_node_ends_has_not_succeeded_even_if_it_saves_and_exits_with_0(
    fake, leader, reason
):
    running(fake, leader)
    told = {"reason": reason, "message": "ended by the node", "containerStatuses": over(0, LATER)}
    fake.pod("x-worker-0-1", "Failed", **told)
    leader.until(lambda: status(fake, "x").get("finishTime"))
    assert status(fake, "x")["phase"] == "Failed"
    assert status(fake, "x")["reason"] == f"{reason}: ended by the node"


def test_a_pod_that_had_ended_when_its_node_was_drained_has_succeeded(fake, backends):
    """A drain deletes pods that have completed, too."""
    old = Headway(backends())
    running(fake, old)
    old.backend.platform.cluster.close()
    told = {"containerStatuses": over(0, LONG_AGO), "conditions": [TARGET]}
    fake.pod("x-worker-0-1", "Succeeded", **told)
    fake.delete("x-worker-0-1")
    new = Headway(backends())
    new.until(lambda: status(fake, "x").get("finishTime"))
    assert status(fake, "x")["phase"] == "Succeeded"
