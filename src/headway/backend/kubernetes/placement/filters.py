"""Which nodes a policy may choose for a pod: ready, schedulable, selected, tolerated, large enough.

Only what a policy needs to choose a node that has a chance. kube-scheduler binds the pods, and
decides about everything else (volumes, ports, affinity between pods, spread, devices).
"""

import json
from collections.abc import Iterable, Mapping, Sequence

from headway.backend.kubernetes.client.api import Plain
from headway.backend.kubernetes.placement.quantities import allocatable, asked

EVERYWHERE = frozenset({"ephemeral-storage"})
"""Resources that a node may have without reporting them."""
STRICT: Plain = {
    "metadata": {"name": ""},
    "spec": {"taints": [{"key": "none", "effect": "NoSchedule"}]},
    "status": {},
}
"""A node for which every requirement of a pod is evaluated."""


def understand(pod: Plain) -> None:
    """Evaluate all requirements of a pod once, so that malformed ones raise now."""
    asked(pod)
    _taints(pod, STRICT)
    _selector(pod, STRICT)


def shape(pod: Plain) -> str:
    """Return all fields that `unfit` reads: pods of the same shape may use the same nodes."""
    spec = pod["spec"]
    node = (spec.get("affinity") or {}).get("nodeAffinity")
    said = asked(pod), spec.get("tolerations"), spec.get("nodeSelector"), node
    return json.dumps(said, sort_keys=True)


def unfit(pod: Plain, node: Plain) -> str:
    """Return why a pod can never run on a node, even if this is empty; "": it can."""
    return _taints(pod, node) or _selector(pod, node) or _size(pod, node)


def _size(pod: Plain, node: Plain) -> str:
    there = allocatable(node)
    for name, amount in asked(pod).items():
        if amount > there.get(name, amount if name in EVERYWHERE else 0.0):
            return f"it requests more {name} than the node has"
    return ""


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
