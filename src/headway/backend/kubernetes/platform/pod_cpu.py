"""CPU request and limit of a pod's training container: declared, wanted and in effect.

Amounts are in thousandths of a core, as Kubernetes counts them. Compared as numbers: `2000m` is
returned as `2`.
"""

import json
from dataclasses import dataclass
from math import ceil
from typing import Any

from headway.backend.kubernetes.client.api import Plain
from headway.backend.kubernetes.placement.quantities import allocatable
from headway.spec.manifest import GROUP
from headway.spec.pod_fields import TRAINING
from headway.spec.quantity import parse_quantity

DECLARED = f"{GROUP}/declared-cpu"
"""Annotation of a resized pod: its CPU before, so that any process can restore it."""
RESIZE = f"{GROUP}/resize"
"""Annotation of a podTemplate: "false" if its owner does not want its pods resized."""
DEFAULT = "kubectl.kubernetes.io/default-container"
PENDING = "PodResizePending"
MOST = 10**9
"""Thousandths of a core; no node has so many."""


@dataclass(frozen=True, slots=True)
class Cpu:
    request: int
    limit: int | None = None


def milli(cores: float) -> int:
    """Cores in thousandths, rounded up.

    >>> milli(0.1), milli(0.0001), milli(1.2345)
    (100, 1, 1235)
    """
    return ceil(cores * 1000 - 1e-6)


def container_of(pod: Plain) -> str:
    """Name of the container that trains. A pod that Headway has not made has it where kubectl looks
    by default.

    >>> pod = {"metadata": {}, "spec": {"containers": [{"name": "proxy"}, {"name": "pytorch"}]}}
    >>> named = {"annotations": {DEFAULT: "pytorch"}}
    >>> container_of({**pod, "metadata": named}), container_of(pod)
    ('pytorch', 'proxy')
    """
    names = [c["name"] for c in pod["spec"].get("containers") or ()]
    chosen = (pod["metadata"].get("annotations") or {}).get(DEFAULT)
    found = [name for name in (TRAINING, chosen) if name in names]
    return str((found or names or [TRAINING])[0])


def spec_of(pod: Plain) -> Cpu:
    """Return the CPU in the spec of a pod."""
    return _cpu(_training(pod, pod["spec"].get("containers")).get("resources") or {})


def in_effect(pod: Plain) -> Cpu:
    """Return the CPU that the node has confirmed; the CPU in the spec if the node reports none."""
    told = _training(pod, (pod.get("status") or {}).get("containerStatuses")).get("resources")
    return _cpu(told) if told else spec_of(pod)


def declared(pod: Plain) -> Cpu:
    """Return the CPU that the owner of a pod and the admission of the cluster have set."""
    return _noted(pod) or spec_of(pod)


def _noted(pod: Plain) -> Cpu | None:
    """Return the declared CPU in the annotation; None: there is none, or it is invalid. The owner
    of the pod can change it.
    """
    kept = (pod["metadata"].get("annotations") or {}).get(DECLARED)
    try:
        found = _cpu(json.loads(kept)) if kept else None
    except (ArithmeticError, AttributeError, RecursionError, TypeError, ValueError):
        return None
    if found is None or not 0 < found.request <= MOST:
        return None
    return found if found.limit is None or found.request <= found.limit <= MOST else None


def checked(pod: Plain, node: Plain | None) -> Plain:
    """Return a pod without its annotation, if this is invalid or exceeds the node."""
    found, most = _noted(pod), whole(node) or MOST
    if not is_noted(pod) or (found is not None and found.request <= most):
        return pod
    kept = {k: v for k, v in pod["metadata"]["annotations"].items() if k != DECLARED}
    return {**pod, "metadata": {**pod["metadata"], "annotations": kept}}


def is_noted(pod: Plain) -> bool:
    """Whether a pod has the annotation with its declared CPU: it was resized."""
    return DECLARED in (pod["metadata"].get("annotations") or {})


def annotation(pod: Plain) -> str:
    return json.dumps(_resources(declared(pod)), separators=(",", ":"))


def as_declared(pod: Plain) -> Plain:
    """Return the pod with its declared amounts, as if it had never been resized."""
    if not is_noted(pod):
        return pod
    own, name = _resources(declared(pod)), container_of(pod)
    listed = [
        {**c, "resources": _merged(c.get("resources") or {}, own)} if c["name"] == name else c
        for c in pod["spec"]["containers"]
    ]
    told = pod.get("status") or {}
    others = [c for c in told.get("containerStatuses") or () if c["name"] != name]
    return {
        **pod,
        "spec": {**pod["spec"], "containers": listed},
        "status": {**told, "containerStatuses": others},
    }


def restored(pod: Plain, node: Plain | None) -> Cpu:
    """Return the CPU to which a pod is restored. A limit cannot be removed: an added one is set to
    the CPU of the node, where it has no effect.
    """
    own, now = declared(pod), spec_of(pod)
    return own if own.limit or now.limit is None else Cpu(own.request, whole(node) or now.limit)


def whole(node: Plain | None) -> int:
    """Return all CPU of a node; 0: unknown."""
    return int(allocatable(node).get("cpu", 0.0) * 1000 + 1e-6) if node else 0


def least_request(pod: Plain) -> int:
    """Return the request of the training below which a smaller one has no effect: the node and the
    scheduler count the request of an init container, if it is larger.
    """
    begin = [c for c in pod["spec"].get("initContainers") or () if not _sidecar(c)]
    most = max((_cpu(c.get("resources") or {}).request for c in begin), default=0)
    rest = [c for c in pod["spec"].get("initContainers") or () if _sidecar(c)]
    rest += [c for c in pod["spec"]["containers"] if c["name"] != container_of(pod)]
    return most - sum(_cpu(c.get("resources") or {}).request for c in rest)


def fixed(pod: Plain) -> tuple[str, str]:
    """Return why the share of a pod cannot be changed: reason and message; "": it can."""
    if (pod["metadata"].get("annotations") or {}).get(RESIZE) == "false":
        return "NotWanted", f"its podTemplate has the annotation {RESIZE}: false"
    if (pod.get("status") or {}).get("qosClass") == "Guaranteed":
        return "Guaranteed", "its pods are Guaranteed: requests and limits are equal"
    if pod["spec"].get("resources"):
        return "PodLevelResources", "its pods have resources at the level of the pod"
    if not spec_of(pod).request:
        return "NoCpuRequest", "it requests no CPU, and a weight is a CPU request"
    rules = _training(pod, pod["spec"]["containers"]).get("resizePolicy") or ()
    restarts = [r for r in rules if r.get("restartPolicy") == "RestartContainer"]
    if any(r.get("resourceName") == "cpu" for r in restarts):
        return "RestartContainer", "its resizePolicy restarts the container if the CPU changes"
    return "", ""


def refused(pod: Plain) -> tuple[str, str]:
    """Return why the node has not accepted a resize: `Deferred` or `Infeasible`, and a message."""
    for each in (pod.get("status") or {}).get("conditions") or ():
        if each["type"] == PENDING and each["status"] == "True":
            return str(each.get("reason", "")), str(each.get("message", ""))
    return "", ""


def resize(pod: Plain, cpu: Cpu) -> Plain:
    """Return a strategic merge patch for `pods/resize`; a merge patch replaces all containers."""
    return {"spec": {"containers": [{"name": container_of(pod), "resources": _resources(cpu)}]}}


def _resources(cpu: Cpu) -> Plain:
    found: Plain = {"requests": {"cpu": f"{cpu.request}m"}}
    return found if cpu.limit is None else {**found, "limits": {"cpu": f"{cpu.limit}m"}}


def _merged(given: Plain, own: Plain) -> Plain:
    without = {
        kind: {name: v for name, v in (given.get(kind) or {}).items() if name != "cpu"}
        for kind in ("requests", "limits")
    }
    return {**given, **{k: {**v, **own.get(k, {})} for k, v in without.items()}}


def _cpu(resources: Any) -> Cpu:
    limit = (resources.get("limits") or {}).get("cpu")
    request = (resources.get("requests") or {}).get("cpu", limit)
    return Cpu(_amount(request) or 0, _amount(limit))


def _amount(given: Any) -> int | None:
    return None if given is None else milli(parse_quantity(given))


def _training(pod: Plain, containers: Any) -> Plain:
    name = container_of(pod)
    found: Plain = next((c for c in containers or () if c["name"] == name), {})
    return found


def _sidecar(container: Plain) -> bool:
    return container.get("restartPolicy") == "Always"
