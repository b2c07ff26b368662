"""Clusters with many pods, nodes and namespaces: what is kept of them, and what waits for what."""

from threading import enumerate as enumerate_threads
from time import monotonic

import pytest

from fake_cluster import Headway, all_bound, bound, condition, node, run_all, status, task
from headway.backend.kubernetes.client import cache
from headway.backend.kubernetes.placement import filters, quantities
from headway.backend.kubernetes.platform import capacity


def foreign(name, phase="Running", **more):
    inside = {"name": "c", "image": "x:1", "env": [{"name": "A", "value": "b"}]}
    inside["resources"] = {"requests": {"cpu": "900m"}}
    about = {"name": name, "namespace": "default", "managedFields": [{"manager": "kubectl"}]}
    about["annotations"] = {"a": "b" * 4096, "kueue.x-k8s.io/workload": "w"}
    spec = {"nodeName": "a", "containers": [inside], "volumes": [{"name": "v"}], **more}
    told = [{"name": "c", "imageID": "sha256:1", "state": {"running": {}}}]
    return {"metadata": about, "spec": spec, "status": {"phase": phase, "containerStatuses": told}}


def test_only_what_is_read_of_a_foreign_pod_is_kept(fake, leader):
    more = {"initContainers": [{"name": "i", "args": ["x"]}], "tolerations": [{"key": "k"}]}
    fake.put("pods", foreign("p", **more))
    pods = leader.backend.platform.cluster.pods
    leader.until(lambda: ("default", "p") in pods)
    pod = pods["default", "p"]
    assert pod["metadata"]["annotations"] == {"kueue.x-k8s.io/workload": "w"}
    assert "managedFields" not in pod["metadata"]
    (inside,) = pod["spec"]["containers"]
    assert inside.keys() == {"name", "image", "resources"}
    assert pod["spec"]["initContainers"] == [{"name": "i"}]
    assert pod["spec"].keys() == {"nodeName", "containers", "initContainers"}
    assert pod["status"]["containerStatuses"] == [{"name": "c", "state": {"running": {}}}]


def test_what_is_listed_is_kept_in_the_same_way(fake, backends):
    fake.put("pods", foreign("p"))
    fake.put("pods", foreign("q", "Succeeded"))
    fake.put("nodes", {**(there := node("c")), "status": {**there["status"], "images": [{}]}})
    cluster = backends().platform.cluster
    assert [name for _, name in cluster.pods] == ["p"]
    assert "volumes" not in cluster.pods["default", "p"]["spec"]
    assert "images" not in cluster.nodes["", "c"]["status"]


def test_our_own_pods_are_kept_whole_also_when_they_have_ended(fake, leader):
    fake.submit("x")
    leader.until(lambda: all_bound(fake, 1))
    (name,) = bound(fake)
    fake.pod(name, "Succeeded")
    leader.until(lambda: condition(fake, "x", "Complete").get("status") == "True")
    pods = leader.backend.platform.cluster.pods
    assert pods["default", name]["spec"]["volumes"]


def test_a_foreign_pod_that_ends_frees_its_room_and_is_forgotten(fake, leader):
    fake.put("nodes", node("b", ready=False))
    fake.put("pods", foreign("p"))
    pods = leader.backend.platform.cluster.pods
    leader.until(lambda: ("default", "p") in pods)
    fake.submit("x")
    leader.until(lambda: condition(fake, "x", "Placed").get("reason") == "WaitingForCapacity")
    fake.pod("p", "Succeeded")
    leader.until(lambda: fake.get("pods", "x-worker-0-1"))
    assert ("default", "p") not in pods


def test_a_namespace_whose_calls_hang_delays_no_other(fake, leader):
    fake.hanging.add(("POST", "pods", "slow"))
    about = {"name": "s", "namespace": "slow", "generation": 1}
    fake.put("trainingjobs", {"metadata": about, "spec": {"tasks": [task()]}})
    leader.until(lambda: ("POST", "pods", "", "") in fake.calls)
    fake.submit("x")
    leader.until(lambda: fake.get("pods", "x-worker-0-1"))
    assert fake.get("pods", "s-worker-0-1", "slow") is None
    fake.hanging.clear()
    leader.until(lambda: fake.get("pods", "s-worker-0-1", "slow"))


def test_a_namespace_without_calls_needs_no_thread(fake, backends, monkeypatch):
    """A cluster may have thousands over time, one for each pull request."""
    monkeypatch.setattr(cache, "IDLE", 0.2)
    leader, spaces = Headway(backends()), ("s0", "s1", "s2")

    def submit(name, space):
        about = {"name": name, "namespace": space, "generation": 1}
        fake.put("trainingjobs", {"metadata": about, "spec": {"tasks": [task(cpu="100m")]}})
        leader.until(lambda: fake.get("pods", f"{name}-worker-0-1", space))

    def threads():
        return [t.name for t in enumerate_threads() if t.name.startswith("kubernetes s")]

    for space in spaces:
        submit("x", space)
    leader.until(lambda: not threads())
    submit("y", "s1")
    assert threads() in ([], ["kubernetes s1"])


def test_pods_of_one_shape_are_compared_with_each_node_once(fake, leader):
    """A thousand nodes and a hundred jobs that wait: in a time in which not each pair fits."""
    for i in range(1000):
        fake.put("nodes", node(f"n{i}", cpu="100m"))
    found = leader.backend.platform.capacity
    leader.until(lambda: len(found.nodes) == 1002)
    fake.submit("x", spec={"tasks": [task(cpu="8")]})
    leader.until(lambda: condition(fake, "x", "Placed").get("reason") == "Unschedulable")
    record = leader.backend.platform.records["default/x"]
    (pod,) = record.sample_pods().values()
    one = min(timed(lambda: filters.unfit(pod, node("n"))) for _ in range(100))
    many = timed(lambda: [found.fitted(record.core, record) for _ in range(100)])
    assert many < 100 * 1000 * one / 4
    fake.put("nodes", node("large", cpu="16"))
    leader.until(lambda: fake.get("pods", "x-worker-0-1"))


def test_a_change_of_a_pod_does_not_read_all_pods_of_its_node(fake, leader, monkeypatch):
    for i in range(50):
        fake.put("pods", foreign(f"p{i}"))
    leader.until(lambda: len(leader.backend.platform.cluster.on_node.get("a", ())) == 50)
    read = []

    def asked(pod):
        read.append(pod["metadata"]["name"])
        return quantities.asked(pod)

    monkeypatch.setattr(capacity, "asked", asked)
    fake.change("pods", "p7", {"metadata": {"labels": {"changed": "true"}}})
    leader.until(lambda: read)
    leader.calm(0.1)
    assert set(read) == {"p7"}


def timed(call):
    began = monotonic()
    call()
    return monotonic() - began


@pytest.mark.parametrize("policy", ["@headway", "@spread"])
def test_a_node_that_was_deleted_is_forgotten_with_its_last_replica(fake, backends, policy):
    """A cluster that grows and shrinks by itself has other nodes each day."""
    leader = Headway(backends(), policy)
    fake.submit("x")
    leader.until(lambda: all_bound(fake, 1))
    run_all(fake)
    leader.until(lambda: status(fake, "x").get("phase") == "Running")
    (used,) = bound(fake).values()
    (other,) = {"a", "b"} - {used}
    leader.until(lambda: other in leader.loop.state.nodes)
    fake.drop("nodes", other, "")
    leader.until(lambda: other not in leader.loop.state.nodes)
    assert other not in leader.backend.controller.nodes
    fake.drop("nodes", used, "")
    leader.until(lambda: not leader.loop.state.nodes[used].up)
    assert used in leader.backend.controller.nodes, "its replica may still run there"
    fake.put("nodes", node("c"))
    fake.drop("pods", "x-worker-0-1")
    leader.until(lambda: fake.get("pods", "x-worker-0-2"))
    assert bound(fake)["x-worker-0-2"] == "c"
    leader.until(lambda: list(leader.loop.state.nodes) == ["c"])
    fake.put("nodes", node(used))
    leader.until(lambda: used in leader.loop.state.nodes)
