"""Which pods may go to which nodes: as kube-scheduler would say, or refused by name."""

import pytest

from fake_cluster import node
from headway.backend.kubernetes.placement.filters import Around, lacking, unfit, unsupported
from headway.backend.kubernetes.placement.node_info import to_core
from headway.backend.kubernetes.placement.quantities import asked
from headway.spec.quantity import parse_quantity

case = pytest.param
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
TAINTED = node("t", taints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}])
SOFT = node("s", taints=[{"key": "gpu", "effect": "PreferNoSchedule"}])
CLOSED = node("c", unschedulable=True)
PLAIN = node("p")
PLAIN["metadata"]["labels"] |= {"disk": "fast", "cores": "16"}
PLAIN["status"]["allocatable"]["example.com/card"] = "2"


def pod(*, ports=(), wants=None, **spec):
    inside = {"name": "c", "resources": {"limits": wants or {}}, "ports": list(ports)}
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
    found = unfit(made, there, [])
    assert (why in found) if why else found == ""


def test_ports_of_the_node_are_given_once():
    web = pod(ports=[{"containerPort": 80, "hostPort": 80}])
    inner = pod(ports=[{"containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.1"}])
    outer = pod(ports=[{"containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.2"}])
    whole = pod(ports=[{"containerPort": 80}], hostNetwork=True)
    own = pod(ports=[{"containerPort": 80}])
    assert "port 80" in unfit(web, PLAIN, [inner])
    assert "port 80" in unfit(whole, PLAIN, [web])
    assert unfit(inner, PLAIN, [outer]) == ""
    assert unfit(web, PLAIN, [own]) == unfit(own, PLAIN, [web]) == ""


def test_cards_that_others_hold_are_taken():
    one = pod(wants={"example.com/card": "1"})
    assert unfit(one, PLAIN, [one]) == ""
    assert "example.com/card" in unfit(one, PLAIN, [one, one])


def claimed(*, volume="", storage="late", **about):
    claim = {"metadata": about, "spec": {"volumeName": volume, "storageClassName": storage}}
    term = {"matchExpressions": [says("disk", "In", "fast")]}
    at = {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}
    allowed = [{"matchLabelExpressions": [{"key": "disk", "values": ["fast"]}]}]
    return Around(
        claims={("default", "data"): claim},
        volumes={("", "v"): {"spec": at}, ("", "free"): {"spec": {}}},
        classes={
            ("", "late"): {"volumeBindingMode": "WaitForFirstConsumer"},
            ("", "near"): {
                "volumeBindingMode": "WaitForFirstConsumer",
                "allowedTopologies": allowed,
            },
            ("", "soon"): {"volumeBindingMode": "Immediate"},
        },
    )


USES = pod(volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}])


@pytest.mark.parametrize(
    ("around", "there", "lacks", "why"),
    [
        case(Around(), PLAIN, "create it", "no persistent", id="no claim"),
        case(claimed(volume="v"), PLAIN, "", "", id="its volume is here"),
        case(claimed(volume="v"), SOFT, "", "cannot be reached", id="its volume is elsewhere"),
        case(claimed(volume="free"), SOFT, "", "", id="a volume that is everywhere"),
        case(claimed(volume="lost"), PLAIN, "", "is not there", id="its volume is lost"),
        case(claimed(), SOFT, "", "", id="bound late, anywhere"),
        case(claimed(storage="near"), PLAIN, "", "", id="bound late, near"),
        case(claimed(storage="near"), SOFT, "", "no volumes there", id="bound late, not there"),
        case(claimed(storage="soon"), PLAIN, "no volume yet", "", id="not bound yet"),
        case(claimed(volume="v", deletionTimestamp="t"), PLAIN, "deleted", "", id="going"),
    ],
)
def test_each_claim(around, there, lacks, why):
    for found, wanted in ((lacking(USES, around), lacks), (unfit(USES, there, [], around), why)):
        assert (wanted in found) if wanted else found == ""


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (pod(), ""),
        (pod(affinity={"podAntiAffinity": {REQUIRED: [1]}}), "podAntiAffinity"),
        (pod(affinity={"podAffinity": {PREFERRED: [1]}}), ""),
        (pod(topologySpreadConstraints=[{"whenUnsatisfiable": "ScheduleAnyway"}]), ""),
        (pod(topologySpreadConstraints=[{}]), "topologySpreadConstraints"),
        (pod(resourceClaims=[{"name": "gpu"}]), "resourceClaims"),
        (pod(volumes=[{"name": "x", "emptyDir": {}}]), ""),
        (pod(volumes=[{"name": "x", "csi": {}}]), "spec.volumes[0].csi"),
    ],
)  # fmt: skip
def test_what_is_beyond_us_is_named(made, name):
    assert (name in unsupported(made)) if name else unsupported(made) == ""


def test_amounts_are_those_of_kubernetes():
    assert [parse_quantity(t) for t in ("300m", "1.5", "2Ki", "3M", 4)] == [0.3, 1.5, 2048, 3e6, 4]
    first = {"name": "i", "resources": {"requests": {"cpu": "2"}}}
    beside = {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}}
    made = pod(wants={"cpu": "500m"}, initContainers=[first, beside], overhead={"cpu": "250m"})
    assert asked(made) == {"cpu": 2.25}
    assert asked(pod(wants={"cpu": "3"}, initContainers=[first])) == {"cpu": 3}


def test_a_node_has_what_others_leave():
    other = pod(wants={"cpu": "300m", "memory": "1Gi"})
    now = to_core(PLAIN, [other])
    assert (now.capacity.cpu, now.capacity.memory, now.up) == (pytest.approx(0.7), 7 * 2**30, True)
    assert not to_core(node("x", ready=False), []).up
    going = node("x")
    going["metadata"]["deletionTimestamp"] = "t"
    assert not to_core(going, []).up
