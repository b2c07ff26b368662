"""Pods of others that ask us to schedule them: bound in groups, and otherwise left alone."""

import pytest

from fake_cluster import all_bound, bound, node
from headway.core.model.job import Phase
from headway.errors import Unreachable


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr("headway.backend.kubernetes.platform.foreign_pods.SETTLED", 0.2)


def stranger(fake, name, *, cpu="400m", labels=None, **spec):
    inside = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    about = {"name": name, "namespace": "default", "labels": labels or {}}
    made = {"metadata": about, "status": {"phase": "Pending"}}
    made["spec"] = {"containers": [inside], "schedulerName": "headway", **spec}
    return fake.put("pods", made, "default")


def unschedulable(fake, name):
    said = fake.get("pods", name)["status"].get("conditions") or [{}]
    return said[0].get("message", "")


def test_a_group_that_says_its_size_waits_for_the_last_of_it(fake, leader):
    labels = {"headway.dev/gang": "g", "headway.dev/gang-size": "2"}
    stranger(fake, "one", labels=labels)
    leader.calm(0.5)
    assert bound(fake) == {"one": None}
    stranger(fake, "two", labels=labels)
    leader.until(lambda: all_bound(fake, 2))


@pytest.mark.parametrize("label", ["job-name", "training.kubeflow.org/job-name"])
def test_pods_of_one_job_are_bound_together_or_not_at_all(fake, leader, label):
    """Three of 800m on two nodes of one core each: nothing, until there is a third."""
    for i in range(3):
        stranger(fake, f"w{i}", cpu="800m", labels={label: "train"})
    leader.calm(0.8)
    assert set(bound(fake).values()) == {None}
    stranger(fake, "alone", cpu="100m")  # who waits blocks nobody
    leader.until(lambda: bound(fake)["alone"])
    fake.put("nodes", node("c"))
    leader.until(lambda: all_bound(fake, 4))


def test_others_are_left_to_their_own_schedulers(fake, leader):
    stranger(fake, "x", schedulerName="default-scheduler")
    stranger(fake, "gated", schedulingGates=[{"name": "wait"}])
    leader.calm(0.5)
    assert set(bound(fake).values()) == {None}
    fake.change("pods", "gated", {"spec": {"schedulingGates": None}})
    leader.until(lambda: bound(fake)["gated"])


def test_a_pod_that_nobody_can_take_says_why(fake, leader):
    stranger(fake, "x", nodeSelector={"disk": "none"})
    stranger(fake, "y", topologySpreadConstraints=[{"maxSkew": 1}])
    leader.until(lambda: "not labelled disk=none" in unschedulable(fake, "x"))
    leader.until(lambda: "topologySpreadConstraints is not supported" in unschedulable(fake, "y"))
    assert set(bound(fake).values()) == {None}


def test_who_leaves_before_it_is_placed_is_not_waited_for(fake, leader):
    for i in range(3):
        stranger(fake, f"w{i}", cpu="800m", labels={"job-name": "train"})
    leader.until(lambda: "default/train.pods" in leader.backend.controller.jobs)
    fake.drop("pods", "w2")
    leader.until(lambda: all_bound(fake, 2))
    stranger(fake, "big", cpu="9")
    leader.until(lambda: "default/big.pods" in leader.backend.controller.jobs)
    fake.drop("pods", "big")
    leader.until(lambda: "default/big.pods" not in leader.backend.controller.jobs)


def test_ends_are_their_own_and_free_the_room(fake, leader):
    for i in range(2):
        stranger(fake, f"w{i}", cpu="800m", labels={"job-name": "train"})
    leader.until(lambda: all_bound(fake, 2))
    fake.pod("w0", "Running")
    fake.pod("w1", "Running")
    fake.pod("w0", "Succeeded")
    stranger(fake, "next", cpu="800m")
    leader.until(lambda: bound(fake)["next"])
    assert not fake.get("pods", "w1")["metadata"].get("deletionTimestamp")
    fake.pod("w1", "Failed")
    leader.until(lambda: "default/train.pods" not in leader.backend.controller.jobs)


def test_a_pod_that_is_made_again_does_not_wait_for_the_others_to_end(fake, leader):
    labels = {"headway.dev/gang": "g", "headway.dev/gang-size": "2"}
    for name in ("one", "two"):
        stranger(fake, name, labels=labels)
    leader.until(lambda: all_bound(fake, 2))
    fake.drop("pods", "two")
    stranger(fake, "two-again", labels=labels)
    leader.until(lambda: bound(fake).get("two-again"))


def test_nothing_is_kept_of_whoever_has_gone(fake, leader):
    for i in range(3):
        stranger(fake, f"x{i}")
    leader.until(lambda: all_bound(fake, 3))
    for i in range(3):
        fake.drop("pods", f"x{i}")
    leader.until(lambda: not leader.backend.controller.jobs)
    foreign = leader.backend.platform.foreign
    assert (foreign.groups, foreign.placed, foreign._in, foreign._told) == ({}, {}, {}, {})
    assert not leader.backend.platform.cluster._assumed
    assert not foreign.started


def tried(fake, method, sub=""):
    return [name for how, kind, name, at in fake.calls if (how, kind, at) == (method, "pods", sub)]


@pytest.mark.parametrize("status", [403, 503])
def test_a_pod_that_could_not_be_bound_waits_again(fake, leader, status):
    fake.refuse["POST", "pods", "binding"] = (status, "not now")
    uid = stranger(fake, "x", cpu="800m")["metadata"]["uid"]
    leader.until(lambda: tried(fake, "POST", "binding"))
    leader.calm(0.8)
    assert len(tried(fake, "POST", "binding")) == 1, "it is tried again, but not at once"
    assert not leader.backend.platform.cluster._assumed, "its room is free for others"
    fake.refuse.clear()
    leader.until(lambda: all_bound(fake, 1))
    assert fake.get("pods", "x")["metadata"]["uid"] == uid
    assert not tried(fake, "DELETE")
    fake.pod("x", "Running")
    leader.until(lambda: leader.backend.controller.jobs["default/x.pods"].phase is Phase.RUNNING)


@pytest.mark.parametrize("after", [0.0, 1.2])
def test_of_a_group_that_was_bound_in_part_only_the_bound_ones_are_made_again(fake, leader, after):
    labels = {"headway.dev/gang": "g", "headway.dev/gang-size": "2"}
    fake.refuse["POST", "pods", "two", "binding"] = (503, "not now")
    fake.refuse["DELETE", "pods", ""] = (503, "not now")
    uid = [stranger(fake, name, labels=labels)["metadata"]["uid"] for name in ("one", "two")][1]
    leader.until(lambda: tried(fake, "DELETE"))
    del fake.refuse["DELETE", "pods", ""]
    leader.until(lambda: "one" not in bound(fake))
    assert set(tried(fake, "DELETE")) == {"one"}
    fake.refuse.clear()
    leader.calm(after)
    assert bound(fake) == {"two": None}, "it waits for the other"
    stranger(fake, "one", labels=labels)  # its controller makes it again
    leader.until(lambda: all_bound(fake, 2))
    assert fake.get("pods", "two")["metadata"]["uid"] == uid


def test_a_binding_whose_answer_was_lost_holds(fake, leader):
    api = leader.backend.platform.cluster.api
    create = api.create

    def lost(path, body, **more):
        create(path, body, **more)
        raise Unreachable("connection reset")

    api.create = lost
    stranger(fake, "x")
    leader.until(lambda: all_bound(fake, 1))
    fake.pod("x", "Running")
    leader.calm(1.5)
    assert not tried(fake, "DELETE")
    assert not leader.backend.platform.foreign.groups


def test_who_goes_while_its_binding_fails_is_not_waited_for(fake, leader):
    fake.refuse["POST", "pods", "binding"] = (503, "not now")
    stranger(fake, "x")
    leader.until(lambda: tried(fake, "POST", "binding"))
    fake.drop("pods", "x")
    leader.until(lambda: not leader.backend.controller.jobs)
    leader.calm(0.3)
    foreign = leader.backend.platform.foreign
    assert (foreign.groups, foreign.placed, foreign._in, foreign._told) == ({}, {}, {}, {})
    assert not foreign.started
