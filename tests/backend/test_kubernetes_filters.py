"""Which nodes a policy may choose for a pod."""

import pytest

from fake_cluster import node
from headway.backend.kubernetes.placement.filters import unfit
from headway.backend.kubernetes.placement.node_info import to_core
from headway.backend.kubernetes.placement.quantities import asked, resources
from headway.spec.quantity import parse_quantity

case = pytest.param
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TAINTED = node("t", taints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}])
SOFT = node("s", taints=[{"key": "gpu", "effect": "PreferNoSchedule"}])
CLOSED = node("c", unschedulable=True)
PLAIN = node("p")
PLAIN["metadata"]["labels"] |= {"disk": "fast", "cores": "16"}
PLAIN["status"]["allocatable"]["example.com/card"] = "2"


def pod(*, wants=None, **spec):
    inside = {"name": "c", "resources": {"limits": wants or {}}}
    return {
        "metadata": {"name": "x", "namespace": "default"},
        "spec": {"containers": [inside], **spec},
    }


def affinity(*expressions, fields=()):
    term = {"matchExpressions": list(expressions), "matchFields": list(fields)}
    required = {"nodeSelectorTerms": [{}, term]}
    return {"nodeAffinity": {REQUIRED: required}}


def says(key, operator, *values):
    return {"key": key, "operator": operator, "values": list(values)}


def tolerates(**what):
    return [{"effect": "NoSchedule", **what}]


@pytest.mark.parametrize(
    ("made", "there", "why"),
    [
        case(pod(), PLAIN, "", id="nothing special"),
        case(pod(), TAINTED, "taint gpu", id="a taint"),
        case(pod(), SOFT, "", id="a taint that only prefers"),
        case(pod(tolerations=tolerates(key="gpu", value="yes")), TAINTED, "", id="equal"),
        case(pod(tolerations=tolerates(key="gpu", value="no")), TAINTED, "gpu", id="unequal"),
        case(pod(tolerations=tolerates(operator="Exists")), TAINTED, "", id="everything"),
        case(pod(tolerations=tolerates(key="x", operator="Exists")), TAINTED, "gpu", id="other"),
        case(
            pod(tolerations=[{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}]),
            TAINTED, "gpu", id="another effect",
        ),
        case(pod(), CLOSED, "unschedulable", id="closed"),
        case(pod(tolerations=tolerates(operator="Exists")), CLOSED, "", id="closed, tolerated"),
        case(pod(nodeSelector={"disk": "fast"}), PLAIN, "", id="its label"),
        case(pod(nodeSelector={"disk": "slow"}), PLAIN, "disk=slow", id="not its label"),
        case(pod(affinity=affinity(says("disk", "In", "fast"))), PLAIN, "", id="In"),
        case(pod(affinity=affinity(says("disk", "NotIn", "fast"))), PLAIN, "affinity", id="NotIn"),
        case(pod(affinity=affinity(says("disk", "Exists"))), PLAIN, "", id="Exists"),
        case(pod(affinity=affinity(says("disk", "DoesNotExist"))), PLAIN, "affinity", id="absent"),
        case(pod(affinity=affinity(says("cores", "Gt", "8"))), PLAIN, "", id="Gt"),
        case(pod(affinity=affinity(says("cores", "Lt", "8"))), PLAIN, "affinity", id="Lt"),
        case(pod(affinity=affinity(says("disk", "Gt", "8"))), PLAIN, "affinity", id="no number"),
        case(pod(affinity=affinity(says("disk", "Like", "f"))), PLAIN, "affinity", id="unknown"),
        case(
            pod(affinity=affinity(fields=[says("metadata.name", "In", "p")])), PLAIN, "", id="field"
        ),
        case(pod(affinity=affinity()), PLAIN, "affinity", id="empty terms match nothing"),
        case(pod(wants={"example.com/card": "2"}), PLAIN, "", id="cards"),
        case(pod(wants={"example.com/card": "3"}), PLAIN, "example.com/card", id="too many"),
        case(pod(wants={"example.com/none": "1"}), PLAIN, "example.com/none", id="none there"),
    ],
)  # fmt: skip
def test_each_filter(made, there, why):
    found = unfit(made, there)
    assert (why in found) if why else found == ""


def test_amounts_are_those_of_kubernetes():
    assert [parse_quantity(t) for t in ("300m", "1.5", "2Ki", "3M", 4)] == [0.3, 1.5, 2048, 3e6, 4]
    first = {"name": "i", "resources": {"requests": {"cpu": "2"}}}
    beside = {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}}
    made = pod(wants={"cpu": "500m"}, initContainers=[first, beside], overhead={"cpu": "250m"})
    assert asked(made) == {"cpu": 2.25}
    assert asked(pod(wants={"cpu": "3"}, initContainers=[first])) == {"cpu": 3}


def test_a_node_has_what_others_leave():
    other = pod(wants={"cpu": "300m", "memory": "1Gi"})
    now = to_core(PLAIN, [resources(asked(other))])
    assert (now.capacity.cpu, now.capacity.memory, now.up) == (pytest.approx(0.7), 7 * 2**30, True)
    assert not to_core(node("x", ready=False), []).up
    going = node("x")
    going["metadata"]["deletionTimestamp"] = "t"
    assert not to_core(going, []).up


def test_an_init_container_needs_its_room_beside_the_sidecars_before_it():
    sidecar = {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "2"}}}
    first = {"name": "i", "resources": {"requests": {"cpu": "1"}}}
    assert asked(pod(wants={"cpu": "500m"}, initContainers=[sidecar, first])) == {"cpu": 3}
    assert asked(pod(wants={"cpu": "500m"}, initContainers=[first, sidecar])) == {"cpu": 2.5}


def test_what_a_pod_requests_as_a_whole_counts():
    whole = {"requests": {"cpu": "3"}}
    assert asked(pod(wants={"cpu": "1", "memory": "5"}, resources=whole)) == {"cpu": 3, "memory": 5}


@pytest.mark.parametrize("key", ["allocatedResources", "resources"])
def test_during_a_resize_the_largest_amount_counts(key):
    made = pod(wants={"cpu": "500m"})
    held = {"cpu": "2"} if key == "allocatedResources" else {"requests": {"cpu": "2"}}
    made["status"] = {"containerStatuses": [{"name": "c", key: held}]}
    assert asked(made) == {"cpu": 2}
