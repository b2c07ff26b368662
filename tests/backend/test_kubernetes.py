"""The backend on an API server in memory: gangs, what goes wrong, and what survives us."""

from time import monotonic

import pytest

from fake_cluster import Headway, all_bound, begins, bound, condition, node, run_all, status, task
from headway.backend.clock import Clock
from headway.backend.kubernetes.client import informer
from headway.backend.kubernetes.platform.platform import KubernetesPlatform
from headway.backend.live import LiveBackend
from headway.core.model.decision import Move, Place, Refused, SetShare, Suspend
from headway.core.model.job import Phase
from headway.core.model.units import ReplicaId
from headway.spec.manifest import TrainingJobSpec
from headway.spec.runnable import RunnableJob

GANG = {"tasks": [task("ps", cpu="200m"), task("worker", 2)]}


# -- gangs -----------------------------------------------------------------------------------------


def test_a_gang_is_placed_runs_and_succeeds_with_its_chief(fake, leader):
    fake.submit("g", spec=GANG)
    leader.until(lambda: all_bound(fake, 3))
    assert set(status(fake, "g")["placement"]) == {"ps-0", "worker-0", "worker-1"}
    run_all(fake)
    leader.until(lambda: status(fake, "g").get("phase") == "Running")
    assert condition(fake, "g", "Running")["status"] == "True"
    fake.pod("g-worker-0-1", "Succeeded")
    leader.until(lambda: fake.get("pods", "g-ps-0-1")["metadata"].get("deletionTimestamp"))
    for name in ("g-ps-0-1", "g-worker-1-1"):
        fake.drop("pods", name)
    done = leader.until(lambda: status(fake, "g").get("finishTime") and status(fake, "g"))
    assert done["phase"] == "Succeeded"
    assert condition(fake, "g", "Complete")["status"] == "True"
    leader.until(lambda: len(fake.all("events")) == 3)
    assert [e["reason"] for e in fake.all("events")] == ["Placed", "Started", "Succeeded"]
    assert "worker-0 on" in fake.all("events")[0]["message"]


def test_the_placement_is_written_before_the_first_is_bound(fake, leader):
    fake.submit("g", spec=GANG)
    leader.until(lambda: all_bound(fake, 3))
    seen = [(kind, each) for _, kind, _, each in fake.log]
    placed = next(i for i, (_, x) in enumerate(seen) if x.get("status", {}).get("placement"))
    made = next(i for i, (kind, _) in enumerate(seen) if kind == "pods")
    bound_at = next(i for i, (_, x) in enumerate(seen) if x.get("spec", {}).get("nodeName"))
    assert placed < made < bound_at


def test_a_gang_that_does_not_fit_makes_nothing_until_it_does(fake, leader):
    taken = node("x")["metadata"] | {"name": "other", "namespace": "default"}
    inside = [{"name": "c", "resources": {"requests": {"cpu": "900m"}}}]
    other = {"metadata": taken, "spec": {"containers": inside, "nodeName": "a"}}
    fake.put("pods", {**other, "status": {"phase": "Running"}}, "default")
    leader.until(lambda: leader.backend.platform.cluster.on_node.get("a"))
    fake.submit("g", spec={"tasks": [task("worker", 3)]})
    leader.until(lambda: condition(fake, "g", "Placed").get("message") == "waiting for capacity")
    leader.calm(0.3)
    assert set(bound(fake)) == {"other"}
    fake.drop("pods", "other")
    leader.until(lambda: all_bound(fake, 3))


LATER = {
    "at once": [],
    "later": [{"name": "training", "state": {"waiting": {"reason": "PodInitializing"}}}],
    "without init containers": [
        {
            "name": "training",
            "state": {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}},
        }
    ],
}
"""What a kubelet adds to the status of a pod that it has declined."""


@pytest.mark.parametrize("told", LATER.values(), ids=LATER)
def test_a_member_that_its_node_declines_releases_the_gang(fake, leader, told):
    fake.submit("g", spec=GANG)
    leader.until(lambda: all_bound(fake, 3))
    fake.pod("g-worker-0-1", "Running")
    why = {"reason": "OutOfcpu", "message": "Node didn't have enough cpu"}
    fake.pod("g-worker-1-1", "Failed", containerStatuses=told, **why)
    began = monotonic()
    leader.until(lambda: not any(fake.get("pods", f"g-{r}-1") for r in ("ps-0", "worker-0")))
    assert monotonic() - began < 5
    leader.until(lambda: all_bound(fake, 4))  # the declined one stays to be read; three are new
    assert fake.get("pods", "g-ps-0-2")
    assert status(fake, "g")["failures"] == 0
    assert any(e["reason"] == "Released" for e in fake.all("events"))


def test_a_pod_that_the_cluster_calls_invalid_fails_the_job_for_good(fake, leader):
    fake.refuse["POST", "pods", ""] = (422, "spec.containers[0].image: Required value")
    fake.submit("x")
    leader.until(lambda: status(fake, "x").get("finishTime"))
    assert status(fake, "x")["phase"] == "Failed"
    assert "Required value" in status(fake, "x")["reason"]


def test_two_gangs_that_fit_only_alone_run_one_after_the_other(fake, leader):
    for name in ("g", "h"):
        fake.submit(name, spec={"tasks": [task("worker", 2, cpu="800m")]})
    leader.until(lambda: all_bound(fake, 2))
    leader.calm(0.3)
    assert {n[0] for n in bound(fake)} == {"g"}
    for name in bound(fake):
        fake.pod(name, "Succeeded")
    leader.until(lambda: sum(n.startswith("h") and bool(w) for n, w in bound(fake).items()) == 2)


def test_where_the_total_suffices_but_no_placement_does_others_are_not_starved(fake, leader):
    """Five of 400m on two nodes of one core: two cores in all, and room for four."""
    fake.submit("g", spec={"tasks": [task("worker", 5)]})
    fake.submit("small")
    assert leader.until(lambda: all_bound(fake, 1)).keys() == {"small-worker-0-1"}
    leader.calm(0.3)
    assert bound(fake).keys() == {"small-worker-0-1"}


def test_half_a_gang_is_refused_whatever_the_policy(fake, leader):
    fake.submit("g", spec={"tasks": [task("worker", 5)]})
    leader.until(lambda: "default/g" in leader.backend.controller.jobs)
    half = tuple((ReplicaId.of("default/g", "worker", i), "a") for i in range(2))
    outcome = leader.backend.act(Place(job="default/g", where=half))
    assert isinstance(outcome, Refused)
    assert "too few of worker" in outcome.why


@pytest.mark.parametrize("how", ["gone", "not ready"])
def test_a_gang_whose_node_is_lost_before_it_runs_holds_nothing(fake, leader, how):
    fake.submit("g", spec=GANG)
    where = leader.until(lambda: all_bound(fake, 3))
    fake.pod("g-worker-0-1", "Running")
    lost = where["g-worker-1-1"]
    if how == "gone":
        fake.drop("nodes", lost, "")
    else:
        fake.put("nodes", node(lost, ready=False))
    leader.until(lambda: any(e["reason"] == "Released" for e in fake.all("events")))
    kept = "g-worker-0-1" if where["g-worker-0-1"] != lost else None
    leader.until(lambda: set(bound(fake)) <= {kept})
    assert status(fake, "g")["failures"] == 0


# -- what goes wrong -------------------------------------------------------------------------------


def test_a_replica_that_fails_is_tried_again_as_often_as_it_may(fake, leader):
    fake.submit("x", spec={"tasks": [task()], "backoffLimit": 1})
    ended = {"exitCode": 3, "message": "Traceback\nValueError: no data"}
    for attempt in (1, 2):
        leader.until(lambda attempt=attempt: fake.get("pods", f"x-worker-0-{attempt}"))
        statuses = [{"name": "training", "state": {"terminated": ended}}]
        fake.pod(f"x-worker-0-{attempt}", "Failed", containerStatuses=statuses)
    leader.until(lambda: status(fake, "x").get("finishTime"))
    assert status(fake, "x")["phase"] == "Failed"
    assert "exited with code 3: ValueError: no data (attempt 2 of 2)" in status(fake, "x")["reason"]


def test_a_job_that_exceeds_its_time_limit_fails_and_is_not_tried_again(fake, leader):
    fake.submit("x", spec={"tasks": [task()], "activeDeadlineSeconds": 1, "backoffLimit": 3})
    leader.until(lambda: all_bound(fake, 1))
    run_all(fake)
    leader.until(lambda: fake.get("pods", "x-worker-0-1")["metadata"].get("deletionTimestamp"))
    fake.drop("pods", "x-worker-0-1")
    leader.until(lambda: status(fake, "x").get("finishTime"))
    assert status(fake, "x")["phase"] == "Failed"
    assert status(fake, "x")["reason"] == "exceeded its time limit of 1 s"


def test_memory_kills_and_deleted_pods_get_a_reason(fake, leader):
    fake.submit("x", spec={"tasks": [task()], "backoffLimit": 0})
    leader.until(lambda: all_bound(fake, 1))
    ended = {"exitCode": 137, "reason": "OOMKilled"}
    statuses = [{"name": "training", "state": {"terminated": ended}}]
    fake.pod("x-worker-0-1", "Failed", containerStatuses=statuses)
    leader.until(lambda: status(fake, "x").get("finishTime"))
    assert "OOMKilled" in status(fake, "x")["reason"]
    fake.submit("y", spec={"tasks": [task()], "backoffLimit": 0})
    leader.until(lambda: fake.get("pods", "y-worker-0-1"))
    run_all(fake)
    leader.until(lambda: status(fake, "y").get("phase") == "Running")
    fake.drop("pods", "y-worker-0-1")
    leader.until(lambda: status(fake, "y").get("finishTime"))
    assert "deleted" in status(fake, "y")["reason"]


def test_a_container_that_does_not_start_becomes_a_condition_and_then_a_failure(fake, backends):
    leader = Headway(backends(stuck_timeout=0.3))
    fake.submit("x", spec={"tasks": [task()], "backoffLimit": 0})
    leader.until(lambda: all_bound(fake, 1))
    waits = {"reason": "ImagePullBackOff", "message": "Back-off pulling image x:1"}
    statuses = [{"name": "training", "state": {"waiting": waits}}]
    fake.pod("x-worker-0-1", "Pending", containerStatuses=statuses)
    leader.until(lambda: condition(fake, "x", "Running").get("reason") == "ImagePullBackOff")
    assert "check the name of the image" in condition(fake, "x", "Running")["message"]
    leader.until(lambda: status(fake, "x").get("finishTime"))
    assert "did not start" in status(fake, "x")["reason"]


def test_a_job_goes_only_where_its_pods_may(fake, leader):
    fake.put("nodes", node("c", "1", taints=[{"key": "gpu", "effect": "NoSchedule"}]))
    fake.put("nodes", node("d", "1", unschedulable=True))
    chosen = {"kubernetes.io/hostname": "b"}
    fake.submit("x", spec={"tasks": [task(nodeSelector=chosen)]})
    assert leader.until(lambda: all_bound(fake, 1)) == {"x-worker-0-1": "b"}
    nowhere = {"kubernetes.io/hostname": "moon"}
    fake.submit("y", spec={"tasks": [task(nodeSelector=nowhere)]})
    leader.until(lambda: condition(fake, "y", "Placed").get("reason") == "Unschedulable")
    assert "not labelled kubernetes.io/hostname=moon" in condition(fake, "y", "Placed")["message"]
    fake.submit("z", spec={"tasks": [task(cpu="20")]})
    leader.until(lambda: "more cpu" in condition(fake, "z", "Placed").get("message", ""))


def test_an_invalid_manifest_gets_a_condition(fake, leader):
    fake.submit("x", spec={"tasks": [task(minReplicas=5)]})
    leader.until(lambda: condition(fake, "x", "Accepted").get("reason") == "Invalid")
    assert "minReplicas" in condition(fake, "x", "Accepted")["message"]


def test_a_job_that_is_deleted_goes_with_its_pods(fake, leader):
    fake.submit("x")
    leader.until(lambda: all_bound(fake, 1))
    fake.drop("trainingjobs", "x")
    leader.until(lambda: not bound(fake))


def test_a_name_can_be_used_again(fake, leader):
    """The second job of a name is not the first; it comes while the first is still leaving."""
    fake.submit("x")
    leader.until(lambda: all_bound(fake, 1))
    run_all(fake)
    leader.until(lambda: status(fake, "x").get("phase") == "Running")
    fake.drop("trainingjobs", "x")
    fake.submit("x", spec={"tasks": [task("main", 2)]})
    leader.until(lambda: fake.get("pods", "x-main-1-2") or fake.get("pods", "x-main-1-1"))
    leader.until(lambda: all_bound(fake, 2))
    assert leader.backend.controller.jobs["default/x"].reason == ""


@pytest.mark.parametrize("ttl", [{}, {"ttlSecondsAfterFinished": 600}])
def test_the_name_of_an_ended_job_can_be_used_again(fake, leader, ttl):
    fake.submit("x", spec={"tasks": [task()], **ttl})
    leader.until(lambda: all_bound(fake, 1))
    fake.pod("x-worker-0-1", "Succeeded")
    leader.until(lambda: status(fake, "x").get("finishTime"))
    idle = monotonic() + 0.3
    leader.until(lambda: monotonic() > idle)
    fake.drop("trainingjobs", "x")
    fake.submit("x", spec={"tasks": [task("main")]})
    leader.until(lambda: fake.get("pods", "x-main-0-1"))


def test_a_waiting_job_may_be_changed(fake, leader):
    job = fake.submit("x", spec={"tasks": [task(cpu="20")]})
    leader.until(lambda: "more cpu" in condition(fake, "x", "Placed").get("message", ""))
    job = fake.get("trainingjobs", "x")
    job["metadata"]["generation"] = 2
    fake.put("trainingjobs", {**job, "spec": {"tasks": [task()]}}, "default")
    leader.until(lambda: all_bound(fake, 1))


def test_what_cannot_be_done_here_is_refused_in_words(fake, leader):
    fake.submit("x")
    leader.until(lambda: all_bound(fake, 1))
    act = leader.backend.act
    for decision in (
        SetShare(replica=ReplicaId("default/x/worker-0"), limit=0.5),
        Move(replica=ReplicaId("default/x/worker-0"), to="b"),
        Suspend(job="default/x"),
        Place(job="default/x", where=((ReplicaId("default/x/worker-0"), "a"),)),
    ):
        outcome = act(decision)
        assert isinstance(outcome, Refused)
        assert outcome.why


# -- whoever comes after us ------------------------------------------------------------------------


def test_a_new_leader_completes_a_placement(fake, backends):
    """The first one dies after it has written where the gang goes, and one of it is bound."""
    old = Headway(backends())
    fake.submit("g", spec=GANG)
    old.until(lambda: all_bound(fake, 3))
    for name in ("g-worker-0-1", "g-worker-1-1"):
        pod = fake.drop("pods", name)
        if name == "g-worker-0-1":  # created, but not bound
            pod["spec"].pop("nodeName")
            pod["spec"]["schedulingGates"] = [{"name": "headway.dev/gang"}]
            fake.put("pods", pod, "default")
    new = Headway(backends())
    new.until(lambda: all_bound(fake, 3))
    assert status(fake, "g")["attempt"] == 1
    new.until(lambda: all(begins(pod) for pod in fake.all("pods")))
    run_all(fake)
    new.until(lambda: status(fake, "g").get("phase") == "Running")


def test_a_new_leader_finds_what_runs_and_what_has_ended(fake, backends):
    old = Headway(backends())
    fake.submit("x")
    fake.submit("y")
    old.until(lambda: all_bound(fake, 2))
    run_all(fake)
    old.until(lambda: [status(fake, n).get("phase") for n in "xy"] == ["Running"] * 2)
    fake.drop("pods", "y-worker-0-1")
    new = Headway(backends())
    assert new.backend.controller.jobs["default/x"].phase is Phase.RUNNING
    new.until(lambda: fake.get("pods", "y-worker-0-2"))
    assert status(fake, "y")["failures"] == 1
    assert fake.get("pods", "x-worker-0-2") is None


def test_pods_that_no_status_mentions_are_deleted(fake, backends):
    fake.submit("x", spec={"tasks": [task(cpu="20")]})
    labels = {"job": "x", "replica": "worker-0", "attempt": "1"}
    about = {"name": "x-worker-0-1", "namespace": "default"}
    about["labels"] = {f"headway.dev/{k}": v for k, v in labels.items()}
    uid = fake.get("trainingjobs", "x")["metadata"]["uid"]
    about["ownerReferences"] = [{"kind": "TrainingJob", "controller": True, "uid": uid}]
    inside = {"containers": [{"name": "training"}]}
    fake.put("pods", {"metadata": about, "spec": inside, "status": {"phase": "Pending"}}, "default")
    fake.refuse["DELETE", "pods", ""] = (503, "busy")
    leader = Headway(backends())
    leader.until(lambda: ("DELETE", "pods", "x-worker-0-1", "") in fake.calls)
    fake.refuse.clear()
    leader.until(lambda: not bound(fake))


@pytest.mark.parametrize("refusal", [(503, "busy"), (403, "is forbidden")])
def test_a_status_that_could_not_be_written_is_written_later(fake, leader, refusal, caplog):
    fake.submit("x")
    leader.until(lambda: all_bound(fake, 1))
    fake.refuse["PATCH", "trainingjobs", "status"] = refusal
    run_all(fake)
    tried = len(fake.calls)
    leader.until(
        lambda: (
            ("PATCH", "trainingjobs", "x", "status") in fake.calls[tried:]
            and len([r for r in caplog.records if refusal[1] in r.message]) == 1
        )
    )
    leader.calm(0.5)
    assert status(fake, "x")["phase"] == "Starting"
    assert len([r for r in caplog.records if refusal[1] in r.message]) == 1
    fake.refuse.clear()
    leader.until(lambda: status(fake, "x")["phase"] == "Running")


def test_a_watch_that_gets_410_lists_again(fake, backends):
    leader = Headway(backends())
    with fake.changed:
        fake.compacted = fake.version + 5
    fake.submit("x")
    leader.until(lambda: all_bound(fake, 1))


@pytest.mark.parametrize("how", ["410", "closed"])
def test_a_server_that_ends_each_watch_at_once_is_not_asked_without_end(
    fake, backends, monkeypatch, how
):
    if how == "closed":
        monkeypatch.setattr(informer, "WATCH", 0.0)
    else:
        fake.compacted = 1000
    leader = Headway(backends())
    leader.calm(1.2)
    asked = [kind for method, kind, name, _ in fake.calls if method == "GET" and not name]
    assert asked.count("nodes") <= 5
    monkeypatch.setattr(informer, "WATCH", 2.0)
    fake.submit("x")
    leader.until(lambda: all_bound(fake, 1))


def test_a_watch_that_falls_silent_is_made_good_by_listing(fake, backends, monkeypatch):
    monkeypatch.setattr(informer, "WATCH", 1.0)
    monkeypatch.setattr(informer, "RELIST", 0.5)
    leader = Headway(backends())
    fake.stale.add("trainingjobs")
    fake.submit("x")
    leader.until(lambda: all_bound(fake, 1))


def test_a_line_that_is_dead_is_given_up(fake, backends, monkeypatch):
    """The server is gone without a word: nothing comes, and nothing is closed."""
    monkeypatch.setattr(informer, "WATCH", 1.0)
    monkeypatch.setattr("headway.backend.kubernetes.client.api.TIMEOUT", 0.5)
    fake.dead.add("trainingjobs")
    leader = Headway(backends())
    fake.submit("x")
    leader.until(lambda: all_bound(fake, 1))
    fake.dead.clear()


def test_a_run_makes_its_jobs_and_takes_them_away(fake, tmp_path):
    spec = TrainingJobSpec.model_validate({"tasks": [task()], "totalSteps": 5})
    jobs = [
        RunnableJob(id=n, at=at, spec=spec.to_core(kind=""), commands={}, manifest=spec)
        for n, at in (("x", 0.0), ("taken", 0.1))
    ]
    fake.submit("taken")

    def start():
        shared, clock = {job.id: job for job in jobs}, Clock()
        made = KubernetesPlatform(fake.api(), shared, clock, namespace="default", run="r1")
        return LiveBackend(made, tmp_path, shared, clock)

    backend = start()
    leader = Headway(backend)
    leader.until(lambda: all_bound(fake, 1))
    assert fake.get("trainingjobs", "x")["metadata"]["labels"] == {"headway.dev/run": "r1"}
    assert (
        fake.get("trainingjobs", "x")["spec"]["tasks"][0]["resources"]["requests"]["cpu"] == "0.4"
    )
    again = start()
    assert again.controller.jobs["x"].phase is Phase.STARTING
    again.platform.cluster.close()
    again.platform.events.close()
    fake.pod("x-worker-0-1", "Succeeded")
    leader.until(lambda: backend.over)
    outcomes = {j.id: (j.phase, j.reason) for j in backend.controller.jobs.values()}
    assert outcomes["x"] == (Phase.SUCCEEDED, "")
    assert "already exists" in outcomes["taken"][1]
    backend.close()
    assert [j["metadata"]["name"] for j in fake.all("trainingjobs")] == ["taken"]
