"""Adoption on an API server in memory: pods of other controllers under shares only."""

import pytest

from fake_cluster import Headway, node
from headway.backend.kubernetes.platform import adoption, shares
from headway.backend.kubernetes.platform.cleanup import restore_shares
from headway.backend.kubernetes.platform.pod_cpu import DECLARED
from headway.controller.records import ADOPTED
from headway.core.model.decision import Move, Refused, SetShare, Suspend
from headway.core.model.units import JobId, NodeId, ReplicaId

QUICK = shares.ShareTimes(interval=0.2, gather=0.02, patience=0.3, hold=0.5)
LABEL = {"headway.dev/adopt": "true"}
KUEUE = {"kueue.x-k8s.io/queue-name": "team"}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    init = shares.Shares.__init__
    quickly = lambda self, cluster, writer, clock: init(self, cluster, writer, clock, QUICK)  # noqa: E731
    monkeypatch.setattr(shares.Shares, "__init__", quickly)


class Pods:
    """Running pods of other controllers on node a."""

    def __init__(self, fake, backend):
        self.fake, self.headway = fake, Headway(backend)
        self.until = self.headway.until

    def start(self, name, *, owner=None, labels=(), cpu="400m", **resources):
        made = {"name": name, "namespace": "default", "labels": dict(labels)}
        if owner is not None:
            kind, above = owner
            about = above["metadata"]
            made["ownerReferences"] = [
                {"kind": kind, "name": about["name"], "uid": about["uid"], "controller": True}
            ]
        own = {"requests": {"cpu": cpu}, **resources}
        inside = [{"name": "pytorch", "image": "x:1", "resources": own}]
        pod = {"metadata": made, "spec": {"nodeName": "a", "containers": inside}}
        return self.fake.put("pods", {**pod, "status": {"phase": "Running"}}, "default")

    def own(self, kind, name, **about):
        return self.fake.put(kind, {"metadata": {"name": name, "namespace": "default", **about}})

    def job(self, name):
        return self.headway.backend.controller.jobs.get(JobId(f"default/pod/{name}"))

    def adopted(self, name):
        found = self.job(name)
        return bool(found and any(r.running for r in found.replicas.values()))

    def set(self, name, **share):
        replica = ReplicaId(f"default/pod/{name}/main-0")
        return self.headway.backend.act(SetShare(replica=replica, **{"limit": None, **share}))

    def cpu(self, name):
        (inside,) = self.fake.get("pods", name)["spec"]["containers"]
        amounts = inside["resources"]
        return amounts["requests"]["cpu"], (amounts.get("limits") or {}).get("cpu")

    def notes(self, name):
        return self.fake.get("pods", name)["metadata"].get("annotations") or {}

    def label(self, kind, name, value):
        self.fake.change(kind, name, {"metadata": {"labels": {"headway.dev/adopt": value}}})

    def events(self, reason):
        found = [e for e in self.fake.all("events") if e["reason"] == reason]
        return [(e["involvedObject"]["kind"], e["message"]) for e in found]

    def share(self):
        """Two adopted pods, of which x has three times the weight."""
        self.start("x", labels=LABEL)
        self.start("y", labels=LABEL)
        self.until(lambda: self.adopted("x") and self.adopted("y"))
        self.set("x", weight=3.0)
        self.until(lambda: (self.cpu("x")[0], self.cpu("y")[0]) == ("600m", "200m"))

    def written(self):
        """Kinds and subresources that were changed."""
        return {(c[0], c[1], c[3]) for c in self.fake.calls if c[0] != "GET"}


@pytest.fixture
def pods(fake, backends):
    return Pods(fake, backends())


def test_a_pod_with_the_label_is_a_job_of_which_only_the_share_can_be_changed(pods):
    pods.share()
    pods.headway.calm(0.05)
    job = pods.headway.loop.state.jobs[JobId("default/pod/x")]
    assert job.capabilities == ADOPTED
    assert job.spec.tasks[0].request.cpu == 0.4
    act, replica = pods.headway.backend.act, ReplicaId("default/pod/x/main-0")
    assert isinstance(act(Move(replica=replica, to=NodeId("b"))), Refused)
    assert isinstance(act(Suspend(job=job.id)), Refused)
    pods.until(lambda: ("Pod", "pod x: shares only") in pods.events("Adopted"))
    changed = {("PATCH", "pods", ""), ("PATCH", "pods", "resize")}
    assert pods.written() - {("POST", "events", "")} == changed


def test_other_pods_are_not_adopted(pods):
    pods.start("x", labels=LABEL)
    pods.start("y")
    pods.start("z", labels={"headway.dev/adopt": "false"})
    pods.until(lambda: pods.adopted("x"))
    assert list(pods.headway.backend.jobs) == [JobId("default/pod/x")]


def test_the_room_of_an_adopted_pod_is_for_shares_and_not_for_others(pods):
    cpu = lambda: pods.headway.backend.controller.nodes[NodeId("a")].capacity.cpu  # noqa: E731
    pods.start("x")
    pods.until(lambda: cpu() == pytest.approx(0.6))
    pods.label("pods", "x", "true")
    pods.until(lambda: pods.adopted("x") and cpu() == pytest.approx(1.0))
    pods.label("pods", "x", None)
    pods.until(lambda: cpu() == pytest.approx(0.6))


def test_a_label_on_a_job_adopts_its_pods_and_its_removal_restores_them(pods):
    job = pods.own("jobs", "train", labels=LABEL)
    limits = {"limits": {"cpu": "800m"}}
    pods.start("train-1", owner=("Job", job), **limits)
    pods.start("train-2", owner=("Job", job), **limits)
    pods.start("other", owner=("Job", pods.own("jobs", "other")))
    pods.until(lambda: pods.adopted("train-1") and pods.adopted("train-2"))
    assert not pods.job("other")
    pods.until(lambda: ("Job", "pod train-1: shares only") in pods.events("Adopted"))
    pods.set("train-1", weight=3.0, limit=0.7)
    pods.until(lambda: pods.cpu("train-1") == ("600m", "700m"))
    pods.label("jobs", "train", None)
    pods.until(lambda: not pods.job("train-1") and not pods.job("train-2"))
    assert [pods.cpu(f"train-{i}") for i in (1, 2)] == [("400m", "800m")] * 2
    pods.until(lambda: DECLARED not in pods.notes("train-1"))
    assert not any(c[0] == "DELETE" for c in pods.fake.calls)
    pods.label("jobs", "train", "true")
    pods.until(lambda: pods.adopted("train-1"))


def test_what_one_pod_gets_back_comes_from_the_others(pods):
    pods.share()
    pods.start("z", labels=LABEL, cpu="200m")
    pods.until(lambda: pods.adopted("z"))
    pods.set("z", weight=2.0)
    pods.until(lambda: [pods.cpu(n)[0] for n in "xyz"] == ["500m", "167m", "333m"])
    pods.label("pods", "x", None)
    pods.until(lambda: not pods.job("x"))
    assert pods.cpu("x")[0] == "400m"
    pods.until(lambda: [pods.cpu(n)[0] for n in "yz"] == ["200m", "400m"])


def test_a_pod_that_cannot_have_its_values_back_yet_is_released_later(pods):
    pods.share()
    pods.fake.refuse["PATCH", "pods", "resize"] = 403, "exceeded quota: cpu"
    pods.label("pods", "x", None)
    pods.headway.calm(0.3)
    assert pods.job("x")
    del pods.fake.refuse["PATCH", "pods", "resize"]
    pods.until(lambda: not pods.job("x"))
    assert pods.cpu("x")[0] == "400m"


@pytest.mark.parametrize(
    "managed",
    [
        pytest.param(lambda p: ({**LABEL, **KUEUE}, None), id="kueue on the pod"),
        pytest.param(
            lambda p: ((), ("Job", p.own("jobs", "t", labels={**LABEL, **KUEUE}))), id="on the Job"
        ),
        pytest.param(
            lambda p: (
                LABEL,
                ("Job", p.own("jobs", "t", ownerReferences=[
                    {"kind": "JobSet", "name": "s", "controller": True}
                ])),
            ),
            id="on the JobSet above",
        ),
        pytest.param(
            lambda p: (
                {**LABEL, "pod-template-hash": "5d4"},
                ("ReplicaSet", {"metadata": {"name": "serve-5d4", "uid": "u"}}),
            ),
            id="an autoscaler of the Deployment",
        ),
    ],
)  # fmt: skip
def test_a_pod_that_something_else_manages_is_refused_with_a_reason(pods, managed):
    pods.own("jobsets", "s", labels=KUEUE)
    target = {"kind": "Deployment", "name": "serve"}
    pods.fake.put("verticalpodautoscalers", {
        "metadata": {"name": "v", "namespace": "default"}, "spec": {"targetRef": target},
    })  # fmt: skip
    labels, owner = managed(pods)
    pods.start("x", labels=labels, owner=owner)
    why = pods.until(lambda: pods.notes("x").get("headway.dev/not-adopted"))
    assert "manages it" in why
    kind = "Job" if labels == () else "Pod"
    assert pods.events("NotAdopted") == [(kind, f"pod x: {why}")]
    assert not pods.job("x")
    pods.label(*(("jobs", "t") if labels == () else ("pods", "x")), None)
    pods.until(lambda: "headway.dev/not-adopted" not in pods.notes("x"))


def test_an_autoscaler_that_only_recommends_is_no_reason(pods):
    target, off = {"kind": "Job", "name": "t"}, {"updateMode": "Off"}
    pods.fake.put("verticalpodautoscalers", {
        "metadata": {"name": "v", "namespace": "default"},
        "spec": {"targetRef": target, "updatePolicy": off},
    })  # fmt: skip
    pods.start("x", owner=("Job", pods.own("jobs", "t", labels=LABEL)))
    pods.until(lambda: pods.adopted("x"))


def test_a_pod_that_an_autoscaler_takes_over_is_released(pods):
    pods.share()
    pods.fake.change("pods", "x", {"metadata": {"annotations": {"vpaInPlaceUpdated": "true"}}})
    pods.until(lambda: pods.notes("x").get("headway.dev/not-adopted"))
    assert pods.cpu("x")[0] == "400m"


def test_owners_that_cannot_be_read_now_are_read_later(fake, pods, monkeypatch):
    monkeypatch.setattr(adoption, "AGAIN", 0.1)
    fake.refuse["GET", "verticalpodautoscalers", ""] = 500, "not now"
    pods.start("x", labels=LABEL)
    pods.headway.calm(0.3)
    assert not pods.job("x")
    fake.refuse["GET", "verticalpodautoscalers", ""] = 403, "you may not read it"
    pods.until(lambda: pods.adopted("x"))


def test_an_operator_that_may_not_see_jobs_still_adopts_pods(fake, backends):
    fake.refuse["GET", "jobs", ""] = 403, "you may not list jobs"
    pods = Pods(fake, backends())
    pods.start("x", labels=LABEL)
    pods.until(lambda: pods.adopted("x"))


@pytest.mark.parametrize(("code", "outcome"), [(0, "succeeded"), (3, "failed")])
def test_the_end_of_an_adopted_pod_is_that_of_its_job_only(pods, code, outcome):
    ends = []
    pods.headway.backend.on_end = lambda job, _: ends.append((job.id, job.outcome))
    pods.share()
    ended = [{"name": "pytorch", "state": {"terminated": {"exitCode": code}}}]
    phase = "Failed" if code else "Succeeded"
    pods.fake.pod("x", phase, containerStatuses=ended)
    pods.until(lambda: ends == [("default/pod/x", outcome)])
    pods.until(lambda: pods.cpu("y")[0] == "400m")
    assert pods.adopted("y")


def test_a_pod_that_its_owner_suspends_is_released_and_its_successor_adopted(pods):
    """A suspended Job deletes its pods; a StatefulSet gives the next one the same name."""
    ends = []
    pods.headway.backend.on_end = lambda job, _: ends.append(job.outcome)
    pods.share()
    pods.fake.delete("x")
    pods.until(lambda: ends == ["released"])
    pods.fake.drop("pods", "x")
    pods.start("x", labels=LABEL)
    pods.until(lambda: pods.adopted("x"))


def test_the_next_leader_adopts_with_the_shares_in_effect_and_restores_what_lost_its_label(
    fake, pods, backends
):
    pods.share()
    pods.headway.backend.close()
    second = Pods(fake, backends())
    second.until(lambda: second.adopted("x"))
    weights = [next(iter(second.job(n).replicas.values())).in_effect[1] for n in "xy"]
    assert weights == [1.5, 0.5]
    second.headway.backend.close()
    pods.label("pods", "x", None)
    pods.label("pods", "y", None)
    Pods(fake, backends()).until(lambda: [pods.cpu(n)[0] for n in "xy"] == ["400m", "400m"])
    assert DECLARED not in pods.notes("x")


def test_the_clean_up_restores_adopted_pods(pods):
    pods.share()
    assert restore_shares(pods.fake.api()) == 2
    assert [pods.cpu(n)[0] for n in "xy"] == ["400m", "400m"]


def test_progress_and_usage_come_from_the_agent_which_reads_the_container_that_trains(pods):
    pods.fake.put("nodes", node("a"))
    pods.start("x", labels=LABEL)
    pods.fake.change("pods", "x", {"metadata": {"annotations": {"headway.dev/metric": "err"}}})
    pods.until(lambda: pods.adopted("x"))
    receiver, uid = (
        pods.headway.backend.platform.receiver,
        pods.fake.get("pods", "x")["metadata"]["uid"],
    )
    answer = receiver.from_node("a", {})
    wanted = {"metric": "err", "container": "pytorch", "position": "", "sdk": False}
    assert answer == {"pods": {uid: wanted}}
    used = [{"usage": {"cpu": cpu, "memory": 1}, "at": cpu} for cpu in (1.0, 2.0)]
    receiver.from_node("a", {uid: used[0]})
    pods.headway.backend.observe(look=(NodeId("a"),))
    receiver.from_node("a", {uid: {**used[1], "log": [[7, 0.5, 0.5, 1, 100]]}})
    (report,) = pods.headway.backend.observe(look=(NodeId("a"),)).reports
    assert (report.step, report.value) == (7.0, 0.5)
    assert report.usage.cpu > 0
    pods.label("pods", "x", None)
    pods.until(lambda: receiver.from_node("a", {}) == {"pods": {}})


def test_a_guaranteed_pod_is_observed_only(pods):
    pods.fake.put("pods", {
        **pods.start("x", labels=LABEL), "status": {"phase": "Running", "qosClass": "Guaranteed"},
    })  # fmt: skip
    pods.until(lambda: pods.adopted("x"))
    pods.until(lambda: pods.job("x").capabilities.shares is False)
    pods.until(lambda: pods.events("NotResizableGuaranteed"))
    pods.label("pods", "x", None)
    pods.until(lambda: not pods.job("x"))


def test_adopted_pods_keep_their_shares_if_jobs_cannot_be_listed_at_once(fake, backends):
    first = Pods(fake, backends())
    job = first.own("jobs", "j", labels=LABEL)
    for name in "xy":
        first.start(name, owner=("Job", job))
    first.until(lambda: first.adopted("x") and first.adopted("y"))
    first.set("x", weight=3.0)
    first.until(lambda: [first.cpu(n)[0] for n in "xy"] == ["600m", "200m"])
    first.headway.backend.close()
    fake.busy["GET", "jobs"] = 7  # more than a call repeats: the first list fails
    second = Pods(fake, backends())
    second.until(lambda: second.adopted("x") and second.adopted("y"))
    second.headway.calm(0.3)
    assert [first.cpu(n)[0] for n in "xy"] == ["600m", "200m"]


def test_an_operator_starts_although_the_owners_of_a_pod_cannot_be_read(
    fake, backends, monkeypatch
):
    monkeypatch.setattr(adoption, "AGAIN", 0.1)
    first = Pods(fake, backends())
    first.share()
    first.headway.backend.close()
    fake.refuse["GET", "verticalpodautoscalers", ""] = 500, "its conversion webhook fails"
    second = Pods(fake, backends())
    fake.submit("t")
    second.until(lambda: fake.get("pods", "t-worker-0-1"))
    assert [first.cpu(n)[0] for n in "xy"] == ["600m", "200m"]
    fake.refuse.clear()
    second.until(lambda: second.adopted("x") and second.adopted("y"))
