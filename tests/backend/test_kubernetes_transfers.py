"""Suspension, moves and scaling of running pods on an API server in memory."""

import pytest

from fake_cluster import Headway, begins, status, task
from headway.backend.kubernetes.platform.pod_checkpoints import not_movable
from headway.core.model.decision import Move, Refused, Started, Suspend
from headway.core.model.job import Phase
from headway.core.model.units import ReplicaId
from headway.runtime.operator_metrics import Measured, Metrics
from headway.spec.manifest import TrainingJobSpec

CLAIM = [{"path": "/headway", "claim": "checkpoints"}]
X = ReplicaId("default/x/worker-0")


@pytest.fixture
def leader(backends):
    return Headway(backends())


def begin(fake, leader, mode="sdk", *, mounts=CLAIM, **more):
    made = task("worker", 1, cpu="100m", mounts=mounts, **more)
    spec = {"tasks": [made], "checkpoint": {"mode": mode, "graceSeconds": 5}}
    fake.submit("x", spec=spec)
    leader.until(lambda: fake.start_bound() or status(fake, "x").get("phase") == "Running")


def condition(fake, kind="Movable"):
    (found,) = [c for c in status(fake, "x")["conditions"] if c["type"] == kind]
    return found["status"], found["reason"]


def pods(fake):
    return {p["metadata"]["name"]: p for p in fake.all("pods")}


def tell(leader, pod, *reports):
    uid = pod["metadata"]["uid"]
    return leader.backend.platform.receiver.from_pod(uid, list(reports), "sdk")


def test_a_job_that_uses_the_sdk_is_asked_to_save_and_stopped_when_it_has(fake, leader):
    begin(fake, leader)
    assert condition(fake) == ("True", "Movable")
    (pod,) = fake.all("pods")
    assert tell(leader, pod, {"step": 1}) == {"checkpoint": False}
    assert isinstance(leader.backend.act(Suspend(job="default/x")), Started)
    assert tell(leader, pod, {"step": 2}) == {"checkpoint": True}
    assert "deletionTimestamp" not in pods(fake)["x-worker-0-1"]["metadata"]
    assert tell(leader, pod, {"checkpoint": "step-2-1"}) == {"checkpoint": False}
    record = leader.backend.controller.jobs["default/x"]
    leader.until(lambda: "deletionTimestamp" in pods(fake)["x-worker-0-1"]["metadata"])
    leader.until(lambda: "x-worker-0-2" in pods(fake))  # its policy starts it again
    assert (record.failures, record.phase in (Phase.STARTING, Phase.RUNNING)) == (0, True)


def test_a_job_that_does_not_save_keeps_running(fake, leader):
    begin(fake, leader)
    record = leader.backend.controller.jobs["default/x"]
    assert isinstance(leader.backend.act(Suspend(job="default/x")), Started)
    record.replicas[X].deadline = leader.backend.clock()
    leader.backend.controller.records.touched.add("default/x")
    leader.until(lambda: record.phase is Phase.RUNNING)
    assert list(pods(fake)) == ["x-worker-0-1"]
    (pod,) = fake.all("pods")
    assert tell(leader, pod, {"step": 2}) == {"checkpoint": False}


def test_a_job_that_saves_on_sigterm_moves_to_another_node(fake, leader):
    begin(fake, leader, "sigterm")
    (pod,) = fake.all("pods")
    to = {"a": "b", "b": "a"}[pod["spec"]["nodeName"]]
    assert isinstance(leader.backend.act(Move(replica=X, to=to)), Started)
    leader.until(lambda: fake.start_bound() or status(fake, "x").get("nodes") == to)
    record = leader.backend.controller.jobs["default/x"]
    leader.until(lambda: fake.start_bound() or record.phase is Phase.RUNNING)
    assert (record.moves, record.failures) == (1, 0)


def test_an_event_says_why_a_job_is_moved_and_none_is_recorded_for_what_is_refused(fake, backends):
    live = backends()
    leader = Headway(Measured(live, Metrics(), live.platform.decided))
    begin(fake, leader)
    (pod,) = fake.all("pods")
    to = other_node(pod)
    refused = Move(replica=X, to=pod["spec"]["nodeName"], reason="nonsense")
    assert isinstance(leader.backend.act(refused), Refused)
    move = Move(replica=X, to=to, reason="converged")
    assert isinstance(leader.backend.act(move), Started)

    def told():
        return [e["message"] for e in fake.all("events") if e["reason"] == "Decided"]

    leader.until(lambda: fake.start_bound() or told())
    assert told() == [f"move worker-0 to {to}: converged"]


def other_node(pod):
    return {"a": "b", "b": "a"}[pod["spec"]["nodeName"]]


def test_a_job_that_moves_holds_its_room_before_it_is_stopped(fake, leader):
    begin(fake, leader)
    (pod,) = fake.all("pods")
    to = other_node(pod)
    assert isinstance(leader.backend.act(Move(replica=X, to=to)), Started)
    leader.until(lambda: fake.start_bound() or "x-worker-0-2" in pods(fake))
    held = pods(fake)["x-worker-0-2"]
    assert [c["name"] for c in held["spec"]["initContainers"]] == ["headway-gang"]
    leader.until(lambda: fake.start_bound() or tell(leader, pod, {"step": 2})["checkpoint"])
    assert pods(fake)["x-worker-0-2"]["spec"]["nodeName"] == to
    assert not begins(pods(fake)["x-worker-0-2"])
    assert "deletionTimestamp" not in pods(fake)["x-worker-0-1"]["metadata"]
    fake.kubelets = False
    tell(leader, pod, {"checkpoint": "step-2-1"})
    leader.until(lambda: "deletionTimestamp" in pods(fake)["x-worker-0-1"]["metadata"])
    leader.calm(0.3)
    assert not begins(pods(fake)["x-worker-0-2"]), "the one before it still runs"
    fake.ended("x-worker-0-1")
    leader.until(lambda: fake.start_bound() or status(fake, "x").get("nodes") == to)
    leader.until(
        lambda: pods(fake)["x-worker-0-2"]["status"]["phase"] != "Pending" or fake.start_bound()
    )
    assert begins(pods(fake)["x-worker-0-2"])


QUOTA = (403, "exceeded quota: team, requested: pods=1, used: pods=1, limited: pods=1")


@pytest.mark.parametrize("no", ["quota", "full", "deleted", "down"])
def test_a_job_without_room_on_the_target_keeps_running(fake, leader, no):
    begin(fake, leader)
    (pod,) = fake.all("pods")
    to, uid = other_node(pod), pod["metadata"]["uid"]
    if no == "quota":
        fake.refuse["POST", "pods", ""] = QUOTA
    elif no == "full":
        fake.unschedulable[to] = "0/2 nodes are available: 1 Insufficient cpu"
    elif no == "down":
        down = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
        fake.change("nodes", to, down, "")
    assert isinstance(leader.backend.act(Move(replica=X, to=to)), Started)
    record = leader.backend.controller.jobs["default/x"]
    if no == "full":
        leader.until(lambda: record.replicas[X].transfer.unschedulable)
        record.replicas[X].deadline = leader.backend.clock()
        leader.backend.controller.records.touched.add("default/x")
    elif no == "deleted":
        leader.until(lambda: "x-worker-0-2" in pods(fake))
        fake.delete("x-worker-0-2", grace=1)
        fake.ended("x-worker-0-2")
    leader.until(lambda: record.phase is Phase.RUNNING)
    leader.until(lambda: list(pods(fake)) == ["x-worker-0-1"])
    assert pods(fake)["x-worker-0-1"]["metadata"]["uid"] == uid
    said = {"quota": "exceeded quota: team", "full": "Insufficient cpu", "deleted": "deleted",
            "down": f"node {to} "}[no]  # fmt: skip
    assert said in record.not_moved
    events = [e for e in fake.all("events") if e["reason"] == "NotMoved"]
    leader.until(lambda: [e for e in fake.all("events") if e["reason"] == "NotMoved"])
    events = [e for e in fake.all("events") if e["reason"] == "NotMoved"]
    assert [said in e["message"] for e in events] == [True]


def holds_room(fake, leader):
    """The pod for the target is bound, and its kubelet has not started it."""
    begin(fake, leader, "sigterm")
    (pod,) = fake.all("pods")
    assert isinstance(leader.backend.act(Move(replica=X, to=other_node(pod))), Started)
    leader.until(lambda: pods(fake).get("x-worker-0-2", {"spec": {}})["spec"].get("nodeName"))


def is_stopped(fake):
    return "deletionTimestamp" in pods(fake)["x-worker-0-1"]["metadata"]


def test_the_container_that_waits_must_run_before_anything_is_stopped(fake, leader):
    claim(fake, "ReadWriteMany")
    holds_room(fake, leader)
    leader.calm(0.3)
    assert not is_stopped(fake)
    waits = {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}
    told = [{"name": "headway-gang", "state": waits}]
    fake.pod("x-worker-0-2", "Pending", initContainerStatuses=told)
    record = leader.backend.controller.jobs["default/x"]
    leader.until(lambda: "no such image" in record.replicas[X].transfer.waiting_for)
    fake.start_bound()
    leader.until(lambda: is_stopped(fake))


@pytest.mark.parametrize("no", [None, (403, "claims is forbidden")])
def test_a_pod_whose_volume_only_one_node_can_have_need_only_be_bound(fake, leader, no):
    claim(fake, "ReadWriteOnce")
    if no:
        fake.refuse["GET", "persistentvolumeclaims", ""] = no
    holds_room(fake, leader)
    leader.until(lambda: is_stopped(fake))


@pytest.mark.parametrize(
    ("mode", "mounts", "reason"),
    [("none", CLAIM, "NoCheckpoint"), ("sigterm", (), "NoVolume")],
)
def test_a_job_whose_checkpoints_would_be_lost_is_not_movable(fake, leader, mode, mounts, reason):
    begin(fake, leader, mode, mounts=list(mounts))
    assert condition(fake) == ("False", reason)
    outcome = leader.backend.act(Suspend(job="default/x"))
    assert outcome.why == "default/x cannot save checkpoints"


def claim(fake, mode):
    about = {"name": "checkpoints", "namespace": "default"}
    fake.put("persistentvolumeclaims", {"metadata": about, "spec": {"accessModes": [mode]}})


def test_a_job_with_a_volume_for_one_pod_is_not_moved_but_can_be_suspended(fake, leader, backends):
    claim(fake, "ReadWriteOncePod")
    begin(fake, leader, "sigterm")
    assert condition(fake) == ("False", "ReadWriteOncePod")
    assert leader.backend.controller.jobs["default/x"].capabilities.migrate is False
    leader.backend.close()
    again = Headway(backends())
    record = again.backend.controller.jobs["default/x"]
    again.until(lambda: record.capabilities and not record.capabilities.migrate)
    assert record.capabilities.suspend
    assert condition(fake) == ("False", "ReadWriteOncePod")
    seen = again.backend.observe()
    assert [j.capabilities.migrate for j in seen.jobs] == [False]
    assert isinstance(again.backend.act(Suspend(job="default/x")), Started)


@pytest.mark.parametrize("no", [None, (403, "claims is forbidden")])
def test_claims_that_other_pods_can_mount_and_claims_that_cannot_be_read_do_not_matter(
    fake, leader, no
):
    claim(fake, "ReadWriteOnce")
    if no:
        fake.refuse["GET", "persistentvolumeclaims", ""] = no
    begin(fake, leader, "sigterm")
    assert condition(fake) == ("True", "Movable")


NFS = {"name": "kept", "nfs": {"server": "s", "path": "/"}}
CSI = {"name": "kept", "csi": {"driver": "secrets-store.csi.k8s.io"}}


def template(volume, path="/headway", **more):
    mounts = [{"name": "kept", "mountPath": path, **more}]
    inside = {"containers": [{"name": "training", "volumeMounts": mounts}], "volumes": [volume]}
    return {"podTemplate": {"spec": inside}}


@pytest.mark.parametrize(
    ("mode", "given", "reason"),
    [
        ("sdk", {"mounts": CLAIM}, ""),
        ("sdk", template(NFS), ""),
        ("sdk", template(NFS, "/headway/checkpoint/"), ""),
        ("sdk", {"mounts": [{"path": "/data", "claim": "images"}]}, "NoVolume"),
        ("sdk", {"mounts": [{"path": "/headway", "claim": "x", "readOnly": True}]}, "NoVolume"),
        ("sdk", template(CSI), "NoVolume"),
        ("sigterm", template(NFS, "/anywhere"), ""),
        ("sigterm", template(NFS, "/data", readOnly=True), "NoVolume"),
        ("sigterm", {"mounts": [{"path": "/data", "secret": "x"}]}, "NoVolume"),
        ("sigterm", {"podTemplate": {"spec": {"volumes": [NFS]}}}, "NoVolume"),
    ],
)
def test_what_a_volume_must_be_to_keep_a_checkpoint(mode, given, reason):
    chief = {"name": "worker", "command": ["x"], **given}
    other = {"name": "ps", "command": ["x"], "mounts": CLAIM}
    spec = {"tasks": [other, chief], "checkpoint": {"mode": mode}}
    assert not_movable(TrainingJobSpec.model_validate(spec), can_ask=True)[0] == reason


def test_a_job_of_a_run_cannot_be_asked_to_save():
    task = {"name": "worker", "command": ["x"], "mounts": CLAIM}
    spec = TrainingJobSpec.model_validate({"tasks": [task], "checkpoint": {"mode": "sdk"}})
    assert not_movable(spec, can_ask=False)[0] == "NoReports"


def test_the_next_leader_knows_that_a_job_has_saved(fake, leader, backends):
    begin(fake, leader)
    (pod,) = fake.all("pods")
    fake.kubelets = False
    assert isinstance(leader.backend.act(Suspend(job="default/x")), Started)
    tell(leader, pod, {"checkpoint": "step-2-1"})
    leader.until(lambda: "deletionTimestamp" in pods(fake)["x-worker-0-1"]["metadata"])
    leader.backend.close()
    again = Headway(backends())
    fake.ended("x-worker-0-1")
    record = again.backend.controller.jobs["default/x"]
    again.until(lambda: "x-worker-0-2" in pods(fake))
    assert record.can_checkpoint, "it can be suspended again"


def test_the_next_leader_releases_the_ended_pod_of_an_earlier_attempt(fake, leader, backends):
    """The leader before it had no time to remove its finalizer."""
    begin(fake, leader, "sigterm")
    (pod,) = fake.all("pods")
    fake.refuse["PATCH", "pods", "x-worker-0-1", ""] = (500, "later")
    assert isinstance(leader.backend.act(Move(replica=X, to=other_node(pod))), Started)
    leader.until(lambda: fake.start_bound() or status(fake, "x").get("nodes") == other_node(pod))
    leader.backend.close()
    fake.refuse.clear()
    assert pods(fake)["x-worker-0-1"]["metadata"]["finalizers"]
    again = Headway(backends())
    again.until(lambda: "x-worker-0-1" not in pods(fake))


def scale(fake, count):
    generation = fake.get("trainingjobs", "x")["metadata"]["generation"] + 1
    wanted = {"metadata": {"generation": generation}, "spec": {"elasticReplicas": count}}
    fake.change("trainingjobs", "x", wanted)


def test_a_job_that_is_scaled_while_it_starts_is_scaled_when_it_runs(fake, leader):
    made = task("worker", 1, cpu="100m", mounts=CLAIM, minReplicas=1, maxReplicas=3)
    fake.submit("x", spec={"tasks": [made], "checkpoint": {"mode": "sigterm", "graceSeconds": 5}})
    leader.until(lambda: pods(fake))
    scale(fake, 2)
    leader.calm(0.5)
    assert list(pods(fake)) == ["x-worker-0-1"]
    there = {"x-worker-0-2", "x-worker-1-2"}
    leader.until(lambda: fake.start_bound() or there <= set(pods(fake)))


def test_the_first_size_that_is_asked_for_while_no_operator_runs_is_not_forgotten(
    fake, leader, backends
):
    """As if the operator had ended between the request and its first write about it."""
    begin(fake, leader, "sigterm", minReplicas=1, maxReplicas=3)
    leader.backend.close()
    scale(fake, 2)
    again = Headway(backends())
    again.until(lambda: fake.start_bound() or "x-worker-1-2" in pods(fake))


def test_a_size_that_was_asked_for_while_no_operator_ran_is_not_forgotten(fake, leader, backends):
    begin(fake, leader, "sigterm", minReplicas=1, maxReplicas=3)
    scale(fake, 2)
    leader.until(lambda: fake.start_bound() or "x-worker-1-2" in pods(fake))
    leader.until(lambda: fake.start_bound() or status(fake, "x").get("phase") == "Running")
    leader.backend.close()
    scale(fake, 3)
    again = Headway(backends())
    again.until(lambda: fake.start_bound() or "x-worker-2-3" in pods(fake))


def test_kubectl_scale_changes_a_running_job(fake, leader):
    begin(fake, leader, "sigterm", minReplicas=1, maxReplicas=3)
    scale(fake, 2)
    there = {"x-worker-0-2", "x-worker-1-2"}
    leader.until(lambda: fake.start_bound() or there <= set(pods(fake)))
    leader.until(lambda: fake.start_bound() or status(fake, "x").get("phase") == "Running")
    (inside,) = pods(fake)["x-worker-1-2"]["spec"]["containers"]
    env = {e["name"]: e.get("value") for e in inside["env"]}
    assert (env["RANK"], env["WORLD_SIZE"]) == ("1", "2")
    assert leader.backend.controller.jobs["default/x"].failures == 0


def test_a_job_that_a_quota_does_not_let_grow_continues_in_its_size(fake, leader):
    begin(fake, leader, "sigterm", minReplicas=1, maxReplicas=3)
    fake.refuse["POST", "pods", ""] = 403, "exceeded quota: team"
    scale(fake, 2)
    leader.until(lambda: "exceeded quota: team" in status(fake, "x").get("reason", ""))
    fake.refuse.clear()
    leader.until(lambda: fake.start_bound() or status(fake, "x").get("phase") == "Running")
    assert (status(fake, "x")["replicas"], status(fake, "x")["failures"]) == (1, 0)
    assert "x-worker-1-3" not in pods(fake)
    scale(fake, 3)
    there = {"x-worker-0-4", "x-worker-1-4", "x-worker-2-4"}
    leader.until(lambda: fake.start_bound() or there <= set(pods(fake)))
