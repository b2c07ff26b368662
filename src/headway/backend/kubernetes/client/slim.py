"""Remove unused fields of objects: a cluster has many more pods than Headway manages."""

from headway.backend.kubernetes.client.api import Plain
from headway.backend.kubernetes.platform.other_managers import KUEUE, VPA
from headway.backend.kubernetes.platform.pod_cpu import DEFAULT
from headway.spec.manifest import GROUP

SPEC = frozenset(
    {"nodeName", "containers", "initContainers", "overhead", "resources", "schedulingGates"}
)
CONTAINER = frozenset({"name", "image", "resources", "resizePolicy", "restartPolicy"})
CONTAINER_STATUS = frozenset(
    {"name", "state", "resources", "allocatedResources", "restartCount", "lastState"}
)


def slim_object(each: Plain) -> None:
    """Remove managed fields, which are half of an object, and the images of a node."""
    each["metadata"].pop("managedFields", None)
    each.get("status", {}).pop("images", None)


def slim_foreign_pod(pod: Plain) -> None:
    """Keep only fields about what a pod requests and uses, who manages it, and how it ends."""
    notes, status = pod["metadata"].get("annotations") or {}, pod.get("status", {})
    _keep(notes, frozenset(filter(_is_read, notes)))
    _keep(pod["spec"], SPEC)
    for kind in ("containers", "initContainers"):
        for each in pod["spec"].get(kind) or ():
            _keep(each, CONTAINER)
    for kind in ("containerStatuses", "initContainerStatuses"):
        for each in status.get(kind) or ():
            _keep(each, CONTAINER_STATUS)


def _is_read(annotation: str) -> bool:
    return annotation.startswith((f"{GROUP}/", KUEUE)) or annotation in (*VPA, DEFAULT)


def _keep(each: Plain, names: frozenset[str]) -> None:
    for name in each.keys() - names:
        del each[name]
