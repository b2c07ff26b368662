"""What went wrong once on a cluster, or would have: leaders that die late, odd manifests, others'
pods, rooms that are counted wrongly, pods that never start.
"""

import pytest

from fake_cluster import Headway, all_bound, bound, condition, run_all, status, task

GANG = {"tasks": [task("ps", cpu="200m"), task("worker", 2)]}


def other(name, on, cpu="100m", space="default", **labels):
    """Somebody else's pod."""
    inside = [{"name": "training", "resources": {"requests": {"cpu": cpu}}}]
    return {
        "metadata": {"name": name, "namespace": space, "labels": labels},
        "spec": {"containers": inside, "nodeName": on},
        "status": {"phase": "Running"},
    }


def test_a_job_that_was_done_when_the_leader_died_has_succeeded(fake, backends):
    """The chief had ended and the server was gone, but that had not been written down."""
    old = Headway(backends())
    fake.submit("g", spec={**GANG, "backoffLimit": 0})
    old.until(lambda: all_bound(fake, 3))
    run_all(fake)
    old.until(lambda: status(fake, "g").get("phase") == "Running")
    fake.pod("g-worker-0-1", "Succeeded")
    fake.drop("pods", "g-ps-0-1")
    new = Headway(backends())
    new.until(lambda: status(fake, "g").get("finishTime"))
    assert status(fake, "g")["phase"] == "Succeeded"


@pytest.mark.parametrize(
    "inside",
    [
        {"containers": [{"name": "training", "resources": {"requests": {"e.com/card": "lots"}}}]},
        {"containers": [{"name": "training", "volumeMounts": [{}]}]},
        {"containers": [{"name": "training"}, {"name": "b", "resources": 3}]},
        {
            "containers": [{"name": "training"}],
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"x": 1}}
            },
        },
    ],
)
def test_nonsense_in_a_pod_template_is_refused_and_harms_no_other_job(fake, leader, inside):
    fake.submit("bad", spec={"tasks": [task(podTemplate={"spec": inside})]})
    leader.until(lambda: status(fake, "bad").get("finishTime"))
    assert condition(fake, "bad", "Accepted")["status"] == "False"
    assert "podTemplate is not a valid pod" in status(fake, "bad")["reason"]
    fake.submit("good")
    leader.until(lambda: fake.get("pods", "good-worker-0-1"))


def test_any_text_and_any_command_will_do(fake, leader):
    fake.submit("x", spec={"tasks": [task(command=["pods"], env={"MOOD": "🙂"})]})
    leader.until(lambda: all_bound(fake, 1))
    (inside,) = fake.get("pods", "x-worker-0-1")["spec"]["containers"]
    told = {e["name"]: e["value"] for e in inside["env"]}
    assert told["MOOD"] == "🙂"
    assert (told["HEADWAY_DIR"], told["HEADWAY_CHECKPOINT_DIR"]) == (
        "/headway",
        "/headway/checkpoint",
    )
    assert told["OMP_NUM_THREADS"] == "1"


@pytest.mark.parametrize("first", ["ps", "chief"])
def test_ranks_begin_with_the_server_or_the_chief_wherever_they_are_named(fake, leader, first):
    tasks = [task("worker", 2), task("chief", cpu="200m")]
    tasks += [task("ps", cpu="100m")] if first == "ps" else []
    fake.submit("g", spec={"tasks": tasks})
    leader.until(lambda: all_bound(fake, len(tasks) + 1))
    ranks = {}
    for pod in fake.all("pods"):
        told = {e["name"]: e["value"] for e in pod["spec"]["containers"][0]["env"]}
        ranks[told["HEADWAY_REPLICA"]] = told["RANK"]
        assert told["MASTER_ADDR"].startswith(f"g-{first}-0.")
    order = [*(["ps-0"] if first == "ps" else []), "chief-0", "worker-0", "worker-1"]
    assert ranks == {name: str(i) for i, name in enumerate(order)}


def test_pods_of_other_namespaces_and_runs_are_left_alone(fake, backends):
    leader = Headway(backends(namespace="default"))
    fake.submit("x", spec={"tasks": [task()], "backoffLimit": 0})
    leader.until(lambda: all_bound(fake, 1))
    run_all(fake)
    leader.until(lambda: status(fake, "x").get("phase") == "Running")
    labels = {"headway.dev/job": "x", "headway.dev/replica": "worker-0"}
    for attempt in ("1", "7"):
        made = other(f"x-worker-0-{attempt}", "b", space="team", **labels)
        made["metadata"]["labels"]["headway.dev/attempt"] = attempt
        fake.put("pods", made)
    run = other("x-worker-0-9", "b", **labels)
    run["metadata"]["labels"] |= {"headway.dev/attempt": "1", "headway.dev/run": "another"}
    fake.put("pods", run)
    fake.change("pods", "x-worker-0-1", {"status": {"phase": "Failed"}}, "team")
    fake.pod("x-worker-0-9", "Failed")
    leader.calm(0.5)
    assert status(fake, "x")["phase"] == "Running"
    assert len(fake.all("pods")) == 4


def test_a_limit_without_a_request_is_room_too(fake, leader):
    """Node a has less left than it would take, and looks emptier by requests alone."""
    fake.put("pods", other("full", "a", cpu="700m"))
    fake.put("pods", other("busy", "b", cpu="100m"))
    leader.until(lambda: leader.backend.platform.cluster.on_node.get("a"))
    asks = {"name": "worker", "image": "x:1", "command": ["x"]}
    fake.submit("x", spec={"tasks": [{**asks, "resources": {"limits": {"cpu": "500m"}}}]})
    leader.until(lambda: bound(fake).get("x-worker-0-1") == "b")


def test_a_new_leader_counts_our_own_pods_once(fake, backends):
    fake.drop("nodes", "b", "")
    old = Headway(backends())
    fake.submit("x")
    old.until(lambda: all_bound(fake, 1))
    run_all(fake)
    old.until(lambda: status(fake, "x").get("phase") == "Running")
    new = Headway(backends())
    assert new.backend.controller.nodes["a"].capacity.cpu == 1.0
    fake.submit("y")
    new.until(lambda: all_bound(fake, 2))


def test_a_new_leader_does_not_complete_what_was_to_go_to_a_lost_node(fake, backends):
    old = Headway(backends())
    fake.submit("x")
    old.until(lambda: all_bound(fake, 1))
    gone = bound(fake)["x-worker-0-1"]
    fake.drop("pods", "x-worker-0-1")
    fake.drop("nodes", gone, "")
    new = Headway(backends())
    new.until(lambda: all_bound(fake, 1) and fake.get("pods", "x-worker-0-2"))
    assert bound(fake) == {"x-worker-0-2": ({"a", "b"} - {gone}).pop()}


def test_a_pod_that_never_starts_fails_its_job_after_the_start_timeout(fake, backends):
    leader = Headway(backends(start_timeout=0.5))
    fake.submit("x", spec={"tasks": [task()], "backoffLimit": 0})
    leader.until(lambda: all_bound(fake, 1))
    waits = {"name": "training", "state": {"waiting": {"reason": "ContainerCreating"}}}
    fake.pod("x-worker-0-1", "Pending", containerStatuses=[waits])
    said = condition(fake, "x", "Running")["message"]
    assert "kubectl describe pods -n default -l headway.dev/job=x" in said
    leader.until(lambda: status(fake, "x").get("finishTime"))
    assert "did not start: not running after 0.5 s" in status(fake, "x")["reason"]


def test_disruptions_do_not_count_as_failures_and_deleted_pods_do_not_succeed(fake, leader):
    fake.submit("x", spec={"tasks": [task()], "backoffLimit": 1})
    target = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    leader.until(lambda: all_bound(fake, 1))
    fake.pod("x-worker-0-1", "Running", conditions=[target])
    fake.drop("pods", "x-worker-0-1")
    leader.until(lambda: bound(fake).get("x-worker-0-2"))
    assert status(fake, "x")["failures"] == 0
    fake.pod("x-worker-0-2", "Running")
    leader.until(lambda: status(fake, "x")["phase"] == "Running")
    leaving = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
    fake.change("pods", "x-worker-0-2", {**leaving, "status": {"phase": "Succeeded"}})
    leader.until(lambda: status(fake, "x")["failures"] == 1)


def test_what_runs_is_given_its_time_when_its_job_is_deleted(fake, leader):
    fake.kubelets = False
    fake.submit("x")
    leader.until(lambda: all_bound(fake, 1))
    run_all(fake)
    leader.until(lambda: status(fake, "x").get("phase") == "Running")
    fake.refuse["DELETE", "pods", ""] = (503, "busy")
    fake.drop("trainingjobs", "x")
    leader.until(lambda: ("DELETE", "pods", "x-worker-0-1", "") in fake.calls)
    fake.refuse.clear()
    leader.until(lambda: fake.get("pods", "x-worker-0-1")["metadata"].get("deletionTimestamp"))


def test_a_job_that_is_rejected_for_good_leaves_only_its_last_pods(fake, backends):
    leader = Headway(backends(longest_backoff=0.01))
    fake.submit("x")
    for attempt in range(1, 6):
        leader.until(lambda attempt=attempt: bound(fake).get(f"x-worker-0-{attempt}"))
        fake.pod(f"x-worker-0-{attempt}", "Failed", reason="SysctlForbidden", message="no")
    leader.until(lambda: fake.get("pods", "x-worker-0-6"))
    leader.until(lambda: len(fake.all("pods")) <= 3)


def test_a_job_may_be_scaled_while_it_waits_for_its_next_try(fake, leader):
    elastic = [task("worker", 1, minReplicas=1, maxReplicas=3, cpu="200m")]
    fake.submit("x", spec={"tasks": elastic})
    leader.until(lambda: all_bound(fake, 1))
    run_all(fake)
    leader.until(lambda: status(fake, "x").get("phase") == "Running")
    assert status(fake, "x")["replicas"] == 1
    ended = {"name": "training", "state": {"terminated": {"exitCode": 3}}}
    fake.pod("x-worker-0-1", "Failed", containerStatuses=[ended])
    leader.until(lambda: status(fake, "x").get("failures") == 1)
    fake.change(
        "trainingjobs", "x", {"metadata": {"generation": 2}, "spec": {"elasticReplicas": 2}}
    )
    leader.until(lambda: fake.get("pods", "x-worker-1-2"))
