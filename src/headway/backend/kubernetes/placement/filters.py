"""May this pod go to that node? What kube-scheduler would ask, as far as we honour it.

Pure: pods, nodes, claims and volumes as the API server tells them. What a pod asks for beyond this
is refused by name (`unsupported`), never ignored.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headway.backend.kubernetes.client.api import Plain
from headway.backend.kubernetes.placement.quantities import GPU, PLAIN, allocatable, asked

MOST = 110
"""Pods of a node that does not say how many it takes."""
LATER = "WaitForFirstConsumer"
NOBODY = "kubernetes.io/no-provisioner"
CLASS = "storageClassName"
SUPPORTED = frozenset({
    "configMap", "secret", "emptyDir", "downwardAPI", "projected", "hostPath", "nfs", "image",
    "persistentVolumeClaim",
})  # fmt: skip
"""Kinds of volumes that no node refuses; claims are looked into."""


@dataclass(frozen=True, slots=True)
class Around:
    """What else is needed to answer: claims by namespace and name, volumes and classes by name."""

    claims: Mapping[tuple[str, str], Plain] = field(default_factory=dict)
    volumes: Mapping[tuple[str, str], Plain] = field(default_factory=dict)
    classes: Mapping[tuple[str, str], Plain] = field(default_factory=dict)


NOTHING = Around()


def unsupported(pod: Plain) -> str:
    """What it asks for that we cannot honour, by its name in the pod; "": nothing."""
    spec = pod["spec"]
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        if (affinity.get(kind) or {}).get("requiredDuringSchedulingIgnoredDuringExecution"):
            return f"spec.affinity.{kind}"
    for each in spec.get("topologySpreadConstraints") or ():
        if each.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule":
            return "spec.topologySpreadConstraints"
    if spec.get("resourceClaims"):
        return "spec.resourceClaims"
    for i, volume in enumerate(spec.get("volumes") or ()):
        for kind in volume:
            if kind != "name" and kind not in SUPPORTED:
                return f"spec.volumes[{i}].{kind}"
    return ""


def understand(pod: Plain) -> None:
    """Look at all that will be looked at later: whatever is wrong with it raises now."""
    asked(pod)
    claims_of(pod)
    _taints(pod, STRICT)
    _selector(pod, STRICT)
    _host_ports(pod)


STRICT: Plain = {
    "metadata": {"name": ""},
    "spec": {"taints": [{"key": "none", "effect": "NoSchedule"}]},
    "status": {},
}
"""A node that wants everything looked at."""


def lacking(pod: Plain, around: Around) -> str:
    """What must be there before it can go anywhere, and is not; "": all is there."""
    for name in claims_of(pod):
        claim = around.claims.get((pod["metadata"].get("namespace", ""), name))
        if claim is None:
            return f"there is no persistent volume claim {name!r}: create it"
        if claim["metadata"].get("deletionTimestamp"):
            return f"the persistent volume claim {name!r} is being deleted"
        if not claim["spec"].get("volumeName") and not late(claim, around):
            return f"the persistent volume claim {name!r} has no volume yet"
        if not claim["spec"].get("volumeName") and _static(claim, around):
            return f"nobody makes a volume for the claim {name!r}: bind it to one (volumeName)"
    return ""


def unfit(pod: Plain, node: Plain, others: Sequence[Plain], around: Around = NOTHING) -> str:
    """Why it may not go there; "": it may. `others`: the pods that are there already. CPU, memory
    and GPUs are not looked at: that is for the policy to weigh.
    """
    return (
        _taints(pod, node)
        or _selector(pod, node)
        or _ports(pod, others)
        or _extended(pod, node, others)
        or _pods(node, others)
        or _volumes(pod, node, around)
    )


def exclusive(pod: Plain) -> bool:
    """Does it hold something that a node has once only? When it goes, others may come."""
    return bool(_host_ports(pod)) or any(_is_extended(name) for name in asked(pod))


def claims_of(pod: Plain) -> list[str]:
    volumes = pod["spec"].get("volumes") or ()
    return [
        v["persistentVolumeClaim"]["claimName"] for v in volumes if "persistentVolumeClaim" in v
    ]


def late(claim: Plain, around: Around) -> bool:
    """Is its volume made only when it is known which node will use it?"""
    name = claim["spec"].get(CLASS) or ""
    found = around.classes.get(("", name))
    return found is not None and found.get("volumeBindingMode") == LATER


def _static(claim: Plain, around: Around) -> bool:
    found = around.classes.get(("", claim["spec"].get(CLASS) or "")) or {}
    return found.get("provisioner") == NOBODY


# -- one by one ------------------------------------------------------------------------------------


def _taints(pod: Plain, node: Plain) -> str:
    taints = list(node["spec"].get("taints") or ())
    if node["spec"].get("unschedulable"):
        taints.append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    tolerated = pod["spec"].get("tolerations") or ()
    for taint in taints:
        if taint["effect"] == "PreferNoSchedule":
            continue
        if not any(_tolerates(t, taint) for t in tolerated):
            return f"it does not tolerate the taint {taint['key']}"
    return ""


def _tolerates(toleration: Plain, taint: Plain) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(toleration.get("key")) and toleration.get("value", "") == taint.get("value", "")


def _selector(pod: Plain, node: Plain) -> str:
    labels = node["metadata"].get("labels") or {}
    for key, value in (pod["spec"].get("nodeSelector") or {}).items():
        if labels.get(key) != value:
            return f"the node is not labelled {key}={value}"
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required and not matches(required["nodeSelectorTerms"], node):
        return "its node affinity excludes the node"
    return ""


def matches(terms: Iterable[Plain], node: Plain) -> bool:
    """Any of the terms; of each, everything it says. A term that says nothing matches nothing."""
    labels = node["metadata"].get("labels") or {}
    fields = {"metadata.name": node["metadata"]["name"]}
    for term in terms:
        said = [(e, labels) for e in term.get("matchExpressions") or ()]
        said += [(e, fields) for e in term.get("matchFields") or ()]
        if said and all(_holds(expression, of) for expression, of in said):
            return True
    return False


def _holds(expression: Plain, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(expression["key"]), expression.get("values") or []
    operator = expression["operator"]
    if operator in ("Gt", "Lt"):
        return _compared(value, values, greater=operator == "Gt")
    known = {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }
    return known.get(operator, False)


def _compared(value: str | None, values: Sequence[str], *, greater: bool) -> bool:
    try:
        here, there = int(value or ""), int(values[0])
    except (ValueError, IndexError):
        return False
    return here > there if greater else here < there


def crowded(node: Plain, count: int) -> bool:
    """Does it take no more than so many pods?"""
    return count >= allocatable(node).get("pods", MOST)


def _pods(node: Plain, others: Sequence[Plain]) -> str:
    return "the node takes no more pods" if crowded(node, len(others)) else ""


Port = tuple[str, int, str]


def _host_ports(pod: Plain) -> set[Port]:
    found = set()
    for container in pod["spec"]["containers"]:
        for port in container.get("ports") or ():
            number = port.get("hostPort")
            if not number and pod["spec"].get("hostNetwork"):
                number = port["containerPort"]
            if number:
                where = port.get("hostIP") or "0.0.0.0"  # noqa: S104 - read, not bound
                found.add((port.get("protocol", "TCP"), int(number), where))
    return found


def _ports(pod: Plain, others: Sequence[Plain]) -> str:
    wanted = _host_ports(pod)
    if not wanted:
        return ""
    for other in others:
        for kind, number, where in _host_ports(other):
            for mine in wanted:
                anywhere = "0.0.0.0" in (mine[2], where)  # noqa: S104
                if mine[:2] == (kind, number) and (anywhere or mine[2] == where):
                    return f"port {number} of the node is taken"
    return ""


def _is_extended(name: str) -> bool:
    return name not in PLAIN and name != GPU


def _extended(pod: Plain, node: Plain, others: Sequence[Plain]) -> str:
    wanted = {k: v for k, v in asked(pod).items() if _is_extended(k) and v}
    if not wanted:
        return ""
    there = allocatable(node)
    for name, amount in wanted.items():
        taken = sum(asked(other).get(name, 0.0) for other in others)
        if taken + amount > there.get(name, 0.0):
            return f"the node has no {name} left"
    return ""


def _volumes(pod: Plain, node: Plain, around: Around) -> str:
    space = pod["metadata"].get("namespace", "")
    for name in claims_of(pod):
        claim = around.claims.get((space, name))
        if claim is None:
            return f"there is no persistent volume claim {name!r}"
        bound = claim["spec"].get("volumeName")
        why = (
            _bound(around.volumes.get(("", bound)), node)
            if bound
            else _unbound(claim, node, around)
        )
        if why:
            return f"{why} (claim {name!r})"
    return ""


def _bound(volume: Plain | None, node: Plain) -> str:
    if volume is None:
        return "its volume is not there"
    required = (volume["spec"].get("nodeAffinity") or {}).get("required")
    if required and not matches(required["nodeSelectorTerms"], node):
        return "its volume cannot be reached from the node"
    return ""


def _unbound(claim: Plain, node: Plain, around: Around) -> str:
    """Late binding: the class may say where its volumes can be."""
    found: Mapping[str, Any] = around.classes.get(("", claim["spec"].get(CLASS) or ""), {})
    allowed = found.get("allowedTopologies")
    if not allowed:
        return ""
    terms = [
        {"matchExpressions": [{**e, "operator": "In"} for e in t.get("matchLabelExpressions", ())]}
        for t in allowed
    ]
    return "" if matches(terms, node) else "its storage class has no volumes there"
