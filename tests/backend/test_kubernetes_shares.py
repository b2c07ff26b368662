"""Shares on an API server in memory: requests and limits of running pods, and what refuses them."""

import json
from itertools import pairwise
from time import monotonic

import pytest

from fake_cluster import Headway, all_bound, condition, run_all, task
from headway.backend.kubernetes.platform import shares
from headway.backend.kubernetes.platform.cleanup import restore_shares
from headway.backend.kubernetes.platform.pod_cpu import DECLARED
from headway.core.model.decision import Applied, Failed, Refused, SetShare, Started
from headway.core.model.units import ReplicaId

QUICK = shares.ShareTimes(interval=0.5, gather=0.02, patience=0.3, hold=2.0)


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(shares.Shares, "__init__", _with(shares.Shares.__init__))


def _with(init):
    return lambda self, cluster, writer, clock: init(self, cluster, writer, clock, QUICK)


class Jobs:
    """Single pods on node a, and what was decided about them."""

    def __init__(self, fake, backend):
        self.fake, self.headway = fake, Headway(backend)
        self.until = self.headway.until

    def start(self, *names, **more):
        for name in names:
            spec = {"tasks": [task(nodeSelector={"kubernetes.io/hostname": "a"}, **more)]}
            self.fake.submit(name, spec=spec)
        self.until(lambda: all_bound(self.fake, len(names)))
        run_all(self.fake)
        self.until(lambda: all(self.record(name).running for name in names))

    def record(self, name):
        jobs = self.headway.backend.controller.jobs
        found = jobs.get(f"default/{name}")
        return next(iter(found.replicas.values())) if found and found.replicas else _NONE

    def set(self, name, *, limit=None, weight=1.0):
        replica = ReplicaId(f"default/{name}/worker-0")
        return self.headway.backend.act(SetShare(replica=replica, limit=limit, weight=weight))

    def cpu(self, name):
        (inside,) = self.fake.get("pods", f"{name}-worker-0-1")["spec"]["containers"]
        amounts = inside["resources"]
        return amounts["requests"]["cpu"], (amounts.get("limits") or {}).get("cpu")

    def seen(self, name):
        self.headway.calm(0.01)
        r = self.headway.loop.state.replicas[ReplicaId(f"default/{name}/worker-0")]
        return r.limit, r.weight

    def resizes(self, name=""):
        calls = [c for c in self.fake.calls if c[0] == "PATCH" and c[3] == "resize"]
        return [c[2] for c in calls if c[2].startswith(name)]

    @property
    def outcomes(self):
        return self.headway.backend.platform.shares.resizes

    def notices(self):
        told = [e for e in self.fake.all("events") if e["reason"] == "NotResized"]
        return [e["message"] for e in told]


class _NONE:
    running = False


@pytest.fixture
def jobs(fake, backends, quick):  # noqa: ARG001
    return Jobs(fake, backends())


def test_weights_are_requests_whose_sum_stays_what_was_declared(jobs):
    jobs.start("x", "y")
    assert isinstance(jobs.set("x", weight=3.0), Started)
    jobs.until(lambda: (jobs.cpu("x"), jobs.cpu("y")) == (("600m", None), ("200m", None)))
    jobs.until(lambda: jobs.seen("x") == (None, 3.0))
    assert jobs.seen("y") == (None, 1.0)
    assert isinstance(jobs.set("x", weight=3.0), Applied)


def test_a_policy_sees_the_share_in_effect_and_not_the_one_wished(jobs):
    jobs.start("x", "y")
    jobs.set("x", weight=3.0)
    assert jobs.seen("x") == (None, 1.0)
    jobs.until(lambda: jobs.seen("x") == (None, 3.0))
    jobs.set("x", weight=1.0)  # within the interval: later
    assert jobs.seen("x") == (None, 3.0)
    jobs.until(lambda: jobs.seen("x") == (None, 1.0))


def test_a_limit_is_the_cpu_limit_and_none_that_of_the_node(jobs):
    jobs.start("x", cpu="100m")
    jobs.set("x", limit=0.25)
    jobs.until(lambda: jobs.cpu("x") == ("100m", "250m"))
    jobs.until(lambda: jobs.seen("x") == (0.25, 1.0))
    jobs.set("x")
    jobs.until(lambda: jobs.cpu("x") == ("100m", "1000m"))
    jobs.until(lambda: jobs.seen("x") == (None, 1.0))


def test_a_limit_below_what_the_sum_needs_is_set_in_part_and_says_so(jobs):
    jobs.start("x")
    jobs.set("x", limit=0.1, weight=2.0)
    jobs.until(lambda: jobs.cpu("x") == ("400m", "401m"))
    told = jobs.until(lambda: [n for n in jobs.notices() if "add up to what" in n])
    assert "limit 0.401 cores" in told[0]


def test_the_limit_of_a_user_is_not_exceeded(jobs):
    more = {"requests": {"cpu": "200m"}, "limits": {"cpu": "500m"}}
    jobs.start("x", resources=more)
    jobs.set("x", limit=0.3)
    jobs.until(lambda: jobs.cpu("x")[1] == "300m")
    jobs.set("x")
    jobs.until(lambda: jobs.cpu("x")[1] == "500m")


def test_the_newest_decision_wins_and_a_pod_is_resized_once_an_interval(jobs, fake):
    jobs.start("x", "y")
    for weight in (2.0, 3.0, 4.0):
        jobs.set("x", weight=weight)
    jobs.until(lambda: jobs.cpu("x") == ("640m", None))
    for weight in (5.0, 6.0, 7.0) * 6:
        jobs.set("x", weight=weight)
        jobs.headway.calm(0.05)
    jobs.until(lambda: jobs.cpu("x") == ("700m", None))
    for pod in ("x-worker-0-1", "y-worker-0-1"):
        times = [at for name, at in fake.resized if name == pod]
        assert len(times) >= 2
        gaps = [later - earlier for earlier, later in pairwise(times)]
        assert min(gaps) >= QUICK.interval


def test_it_raises_first_where_there_is_room_and_lowers_first_otherwise(jobs, fake):
    jobs.start("x", "y")
    jobs.set("x", weight=1.4)  # 467 and 333: 67 more while 200 are free
    jobs.until(lambda: jobs.cpu("y")[0] == "333m")
    assert jobs.resizes() == ["x-worker-0-1", "y-worker-0-1"]
    jobs.set("x", weight=7.0)  # 700 and 100: 233 more
    jobs.until(lambda: jobs.cpu("x")[0] == "700m")
    assert jobs.resizes()[2:] == ["y-worker-0-1", "x-worker-0-1"]
    del fake


def test_nothing_is_lowered_first_while_a_pending_pod_could_take_it(jobs, fake):
    jobs.start("x", "y")
    about = {"name": "other", "namespace": "default"}
    inside = [{"name": "c", "resources": {"requests": {"cpu": "300m"}}}]
    fake.put(
        "pods", {"metadata": about, "spec": {"containers": inside}, "status": {"phase": "Pending"}}
    )
    jobs.until(lambda: ("default", "other") in jobs.headway.backend.platform.cluster.pods)
    jobs.set("x", weight=7.0)  # 300 more while 200 are free
    told = jobs.until(jobs.notices)
    assert "the pending pod default/other could take" in told[0]
    jobs.headway.calm(0.2)
    assert (jobs.resizes(), jobs.seen("x")) == ([], (None, 1.0))
    jobs.set("x", weight=1.2)  # 36 more
    jobs.until(lambda: jobs.cpu("x")[0] == "436m")
    fake.drop("pods", "other")
    jobs.set("x", weight=7.0)
    jobs.until(lambda: jobs.cpu("x")[0] == "700m")


def test_the_capacity_of_a_node_does_not_move_with_shares(jobs):
    jobs.start("x", "y")
    jobs.set("x", weight=3.0)
    jobs.until(lambda: jobs.cpu("y")[0] == "200m")
    jobs.headway.calm(0.1)
    assert jobs.headway.loop.state.nodes["a"].capacity.cpu == 1.0


def noted(cpu):
    return {"annotations": {DECLARED: f'{{"requests":{{"cpu":{cpu}}}}}'}}


@pytest.mark.parametrize("cpu", ["1e999", "0.9"])
def test_what_is_noted_on_a_pod_of_another_owner_has_no_effect(jobs, fake, cpu):
    jobs.start("x")
    about = {"name": "other", "namespace": "default", **noted(cpu)}
    inside = [{"name": "training", "resources": {"requests": {"cpu": "100m"}}}]
    spec = {"nodeName": "a", "containers": inside}
    fake.put("pods", {"metadata": about, "spec": spec, "status": {"phase": "Running"}})
    jobs.until(lambda: ("default", "other") in jobs.headway.backend.platform.cluster.pods)
    jobs.headway.calm(0.1)
    assert jobs.headway.loop.state.nodes["a"].capacity.cpu == 0.9


@pytest.mark.parametrize("cpu", ["1e999", "50"])
def test_what_is_noted_on_a_replica_is_ignored_if_its_node_has_less(jobs, fake, cpu):
    jobs.start("x", "y")
    fake.change("pods", "x-worker-0-1", {"metadata": noted(cpu)})
    jobs.set("x", weight=3.0)
    jobs.until(lambda: (jobs.cpu("x"), jobs.cpu("y")) == (("600m", None), ("200m", None)))
    jobs.headway.calm(0.1)
    assert jobs.headway.loop.state.nodes["a"].capacity.cpu == 1.0
    kept = fake.get("pods", "x-worker-0-1")["metadata"]["annotations"][DECLARED]
    assert json.loads(kept) == {"requests": {"cpu": "400m"}}


def test_the_surplus_of_a_pod_that_ends_returns_to_the_others_at_once(jobs, fake):
    jobs.start("x", "y")
    jobs.set("x", weight=3.0)
    jobs.until(lambda: jobs.cpu("y")[0] == "200m")
    fake.pod("x-worker-0-1", "Succeeded")
    jobs.until(lambda: jobs.cpu("y")[0] == "400m", patience=2.0)


def test_between_namespaces_requests_do_not_move_and_the_policy_sees_that(jobs, fake):
    jobs.start("x")
    spec = {"tasks": [task(nodeSelector={"kubernetes.io/hostname": "a"})]}
    other = {"metadata": {"name": "z", "namespace": "other", "generation": 1}, "spec": spec}
    fake.put("trainingjobs", other, "other")
    jobs.until(lambda: all_bound(fake, 2))
    fake.change("pods", "z-worker-0-1", {"status": {"phase": "Running"}}, "other")
    name = ReplicaId("other/z/worker-0")
    jobs.until(lambda: jobs.headway.backend.controller.records.replica(name).running)
    jobs.set("x", weight=3.0)
    told = jobs.until(lambda: [n for n in jobs.notices() if "namespace" in n])
    assert "weight 2" in told[0]
    assert (jobs.cpu("x")[0], jobs.resizes()) == ("400m", [])
    assert jobs.seen("x") == (None, 2.0)


@pytest.mark.parametrize(
    ("reason", "pod"),
    [
        ("NotWanted", {"metadata": {"annotations": {"headway.dev/resize": "false"}}}),
        ("RestartContainer", None),
    ],
)
def test_pods_that_may_not_be_resized_run_and_say_so(jobs, fake, reason, pod):
    rule = {"resourceName": "cpu", "restartPolicy": "RestartContainer"}
    given = pod or {"spec": {"containers": [{"name": "training", "resizePolicy": [rule]}]}}
    jobs.start("x", podTemplate=given)
    jobs.until(lambda: condition(fake, "x", "Resizable").get("reason") == reason)
    assert condition(fake, "x", "Resizable")["status"] == "False"
    jobs.headway.calm(0.02)
    snapshot = jobs.headway.loop.state
    assert snapshot.restricted["default/x"].shares is False
    outcome = jobs.set("x", weight=3.0)
    assert isinstance(outcome, Failed)
    assert jobs.resizes() == []


def test_a_new_job_of_the_same_name_says_itself_that_it_may_not_be_resized(jobs, fake):
    template = {"metadata": {"annotations": {"headway.dev/resize": "false"}}}
    platform = jobs.headway.backend.platform
    for _ in range(2):
        jobs.start("x", podTemplate=template)
        jobs.until(lambda: condition(fake, "x", "Resizable").get("reason") == "NotWanted")
        jobs.headway.calm(0.02)
        assert jobs.headway.loop.state.restricted["default/x"].shares is False
        fake.pod("x-worker-0-1", "Succeeded")
        jobs.until(lambda: condition(fake, "x", "Complete").get("status") == "True")
        fake.drop("trainingjobs", "x")
        fake.drop("pods", "x-worker-0-1")
        jobs.until(lambda: "default/x" not in platform.records and not platform.cluster.pods)


def test_a_refused_resize_is_an_outcome_and_is_not_repeated(jobs, fake):
    """As a LimitRange refuses it. What was not raised is not taken from the others."""
    jobs.start("x", "y")
    why = "pods x is forbidden: maximum cpu usage per Container is 500m, but limit is 600m"
    fake.refuse["PATCH", "pods", "x-worker-0-1", "resize"] = 403, why
    jobs.set("x", weight=1.4)
    told = jobs.until(lambda: [n for n in jobs.notices() if "maximum cpu" in n])
    assert told
    for _ in range(5):
        assert isinstance(jobs.set("x", weight=1.4), Failed)
        jobs.headway.calm(0.2)
    assert jobs.resizes() == ["x-worker-0-1"]
    assert jobs.outcomes == {"refused": 1}
    assert jobs.cpu("y") == ("400m", None)


def test_after_a_quota_has_refused_it_lowers_first(jobs, fake):
    jobs.start("x", "y")
    refused = 'pods "x" is forbidden: exceeded quota: team, requested: requests.cpu=67m'
    fake.refuse["PATCH", "pods", "x-worker-0-1", "resize"] = 403, refused
    jobs.set("x", weight=1.4)
    jobs.until(lambda: [n for n in jobs.notices() if "exceeded quota" in n])
    fake.refuse.clear()
    jobs.until(lambda: jobs.cpu("x")[0] == "467m")
    assert jobs.resizes()[1:] == ["y-worker-0-1", "x-worker-0-1"]


def test_a_resize_that_its_node_defers_is_an_outcome(jobs, fake):
    jobs.start("x", "y")
    fake.resizing["x-worker-0-1"] = "Deferred"
    jobs.set("x", weight=1.4)
    told = jobs.until(lambda: [n for n in jobs.notices() if "Deferred" in n])
    assert told
    assert jobs.seen("x") == (None, 1.2), "400m in comparison to 333m"
    assert jobs.outcomes == {"accepted": 2, "deferred": 1}
    fake.resizing.clear()
    fake.resize(
        "x-worker-0-1", "default", {"spec": {"containers": [{"name": "training", "resources": {}}]}}
    )
    jobs.until(lambda: jobs.seen("x") == (None, 1.4))


def test_an_infeasible_resize_is_taken_back(jobs, fake):
    jobs.start("x", "y")
    fake.resizing["x-worker-0-1"] = "Infeasible"
    jobs.set("x", weight=1.4)
    jobs.until(lambda: [n for n in jobs.notices() if "Infeasible" in n])
    assert jobs.outcomes["infeasible"] == 1
    fake.resizing.clear()
    jobs.until(lambda: (jobs.cpu("x")[0], jobs.cpu("y")[0]) == ("400m", "400m"))


def test_a_pod_that_has_changed_since_is_resized_a_little_later(jobs, fake):
    jobs.start("x", "y")
    fake.stale.add("pods")
    fake.change("pods", "x-worker-0-1", {"metadata": {"labels": {"seen": "no"}}})
    jobs.set("x", weight=1.4)
    jobs.until(lambda: [c for c in fake.calls if c[:3] == ("PATCH", "pods", "x-worker-0-1")])
    jobs.headway.calm(0.2)
    tried = [c for c in fake.calls if c[:3] == ("PATCH", "pods", "x-worker-0-1")]
    assert (jobs.cpu("x")[0], len(tried)) == ("400m", 1), "not again before the change is seen"
    assert jobs.outcomes == {"conflict": 1}
    fake.stale.clear()
    jobs.until(lambda: (jobs.cpu("x")[0], jobs.cpu("y")[0]) == ("467m", "333m"))


def test_the_next_leader_knows_what_was_declared(jobs, fake, backends):
    jobs.start("x", "y")
    jobs.set("x", limit=0.7, weight=3.0)
    jobs.until(lambda: jobs.cpu("y")[0] == "200m")
    kept = fake.get("pods", "x-worker-0-1")["metadata"]["annotations"][DECLARED]
    assert json.loads(kept) == {"requests": {"cpu": "400m"}}
    again = Jobs(fake, backends())
    again.until(lambda: again.record("x").running)
    assert again.seen("x") == (0.7, 1.5)
    assert again.seen("y") == (None, 0.5)
    before = len(jobs.resizes())
    again.headway.calm(0.3)
    assert len(again.resizes()) == before
    again.set("x", limit=0.7, weight=0.5)
    again.until(lambda: (again.cpu("x"), again.cpu("y")[0]) == (("400m", "700m"), "400m"))


def test_declared_values_return_when_it_only_observes(jobs, fake, backends):
    jobs.start("x", "y")
    jobs.set("x", limit=0.7, weight=3.0)
    jobs.until(lambda: jobs.cpu("y")[0] == "200m")
    again = Jobs(fake, backends())
    again.headway.backend.platform.shares.restore_declared()
    again.until(lambda: (again.cpu("x"), again.cpu("y")) == (("400m", "1000m"), ("400m", None)))


def test_declared_values_return_once_no_pending_pod_could_take_the_room(jobs, fake, backends):
    jobs.start("x", "y")
    jobs.set("x", weight=7.0)
    jobs.until(lambda: jobs.cpu("x")[0] == "700m")
    about = {"name": "other", "namespace": "default"}
    inside = [{"name": "c", "resources": {"requests": {"cpu": "300m"}}}]
    waits = {"metadata": about, "spec": {"containers": inside}, "status": {"phase": "Pending"}}
    fake.put("pods", waits)
    again = Jobs(fake, backends())
    again.headway.backend.platform.shares.restore_declared()
    again.headway.calm(3 * QUICK.interval)
    assert (again.cpu("x")[0], again.cpu("y")[0]) == ("700m", "100m")
    fake.drop("pods", "other")
    again.until(lambda: (again.cpu("x")[0], again.cpu("y")[0]) == ("400m", "400m"))


def test_a_refused_return_of_declared_values_is_repeated_rarely(jobs, fake, backends):
    jobs.start("x", "y")
    jobs.set("x", weight=3.0)
    jobs.until(lambda: jobs.cpu("y")[0] == "200m")
    fake.refuse["PATCH", "pods", "x-worker-0-1", "resize"] = 403, "a webhook is against it"
    before, began = len(jobs.resizes("x")), monotonic()
    again = Jobs(fake, backends())
    again.headway.backend.platform.shares.restore_declared()
    again.until(lambda: again.cpu("y")[0] == "400m")
    again.until(lambda: len(again.resizes("x")) > before)
    again.headway.calm(QUICK.hold / 2)
    assert len(again.resizes("x")) - before <= 1 + (monotonic() - began) / QUICK.hold
    fake.refuse.clear()
    again.until(lambda: again.cpu("x")[0] == "400m")


def test_clean_up_restores_what_was_declared(jobs, fake):
    jobs.start("x", "y")
    jobs.set("x", limit=0.7, weight=3.0)
    jobs.until(lambda: jobs.cpu("y")[0] == "200m")
    assert restore_shares(fake.api()) == 2
    assert (jobs.cpu("x"), jobs.cpu("y")) == (("400m", "1000m"), ("400m", None))
    assert DECLARED not in fake.get("pods", "x-worker-0-1")["metadata"]["annotations"]
    assert restore_shares(fake.api()) == 0
    jobs.headway.calm(0.1)
    for weight in (2.0, 3.0):  # the operator, if it still runs, leaves them alone
        assert isinstance(jobs.set("x", weight=weight), Failed)
        jobs.headway.calm(0.3)
    assert jobs.cpu("x") == ("400m", "1000m")


def test_a_share_of_a_pod_that_does_not_run_is_refused(jobs):
    assert isinstance(jobs.set("ghost"), Refused)
