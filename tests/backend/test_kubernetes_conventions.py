"""What users of Kubernetes expect of an object: suspend, conditions, scale, events."""

import pytest

from fake_cluster import Headway, all_bound, bound, condition, run_all, status, task


def change(fake, name, **spec):
    job = fake.get("trainingjobs", name)
    generation = job["metadata"]["generation"] + 1
    fake.change("trainingjobs", name, {"metadata": {"generation": generation}, "spec": spec})


def test_a_suspended_job_is_not_started_until_it_is_resumed(fake, leader):
    fake.submit("x", spec={"tasks": [task()], "suspend": True})
    leader.until(lambda: status(fake, "x").get("phase") == "Paused")
    assert condition(fake, "x", "Suspended")["status"] == "True"
    change(fake, "x", tasks=[task(image="x:2")])  # as Kueue does
    leader.calm(0.3)
    assert not fake.all("pods")
    change(fake, "x", suspend=False)
    leader.until(lambda: all_bound(fake, 1))
    assert fake.all("pods")[0]["spec"]["containers"][0]["image"] == "x:2"
    assert condition(fake, "x", "Suspended")["status"] == "False"


@pytest.mark.parametrize("next_leader", [False, True])
def test_a_running_job_that_is_suspended_is_stopped_and_continues(fake, backends, next_leader):
    leader = Headway(backends())
    fake.submit("x", spec={"tasks": [task()], "backoffLimit": 0})
    leader.until(lambda: all_bound(fake, 1))
    run_all(fake)
    leader.until(lambda: status(fake, "x").get("phase") == "Running")
    if next_leader:
        leader.backend.platform.cluster.close()
    change(fake, "x", suspend=True)
    leader = Headway(backends()) if next_leader else leader
    leader.until(lambda: status(fake, "x").get("phase") == "Paused")
    assert not bound(fake)
    assert status(fake, "x")["failures"] == 0
    change(fake, "x", suspend=False)
    leader.until(lambda: bound(fake).get("x-worker-0-2"))


def test_conditions_say_which_generation_they_are_about(fake, leader):
    fake.submit("x", spec={"tasks": [task(cpu="20")]})
    leader.until(lambda: condition(fake, "x", "Placed").get("reason") == "Unschedulable")
    assert condition(fake, "x", "Placed")["observedGeneration"] == 1
    change(fake, "x", tasks=[task()])
    leader.until(lambda: condition(fake, "x", "Placed").get("status") == "True")
    assert condition(fake, "x", "Placed")["observedGeneration"] == 2


def test_a_failed_job_has_a_condition_that_can_be_waited_for(fake, leader):
    fake.submit("x", spec={"tasks": [task()], "backoffLimit": 0})
    leader.until(lambda: all_bound(fake, 1))
    fake.pod("x-worker-0-1", "Failed")
    leader.until(lambda: condition(fake, "x", "Failed").get("status") == "True")
    assert condition(fake, "x", "Complete") == {}


def test_the_scale_selector_counts_only_the_scalable_task(fake, leader):
    tasks = [task("ps", cpu="100m"), task("worker", 1, minReplicas=1, maxReplicas=3)]
    fake.submit("x", spec={"tasks": tasks})
    leader.until(lambda: all_bound(fake, 2))
    assert status(fake, "x")["selector"] == "headway.dev/job=x,headway.dev/task=worker"
    assert status(fake, "x")["nodes"] in ("a,b", "b,a", "a", "b")
    change(fake, "x", elasticReplicas=2)
    leader.until(lambda: [e for e in fake.all("events") if e["reason"] == "NotScaled"])


def test_the_same_event_is_counted(fake, backends):
    leader = Headway(backends(unschedulable_timeout=0.1, avoid_node=0.1, longest_backoff=0.1))
    fake.unschedulable = {"a": "no", "b": "no"}
    fake.submit("x")

    def released():
        return [e for e in fake.all("events") if e["reason"] == "Released"]

    leader.until(lambda: any(e["count"] > 2 for e in released()))
    assert len(released()) == 1
    fake.drop("events", released()[0]["metadata"]["name"])  # the API server forgets them
    leader.until(released)
    again = Headway(backends(unschedulable_timeout=0.1, avoid_node=0.1, longest_backoff=0.1))
    again.until(lambda: released()[0]["count"] > 1)
    assert len(released()) == 1
