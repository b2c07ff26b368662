"""Remove unused fields of objects: a cluster has many more pods than Headway manages."""

from headway.backend.kubernetes.client.api import Plain

APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
CONTAINER = frozenset({"name", "image", "resources", "resizePolicy", "restartPolicy"})
CONTAINER_STATUS = frozenset(
    {"name", "state", "resources", "allocatedResources", "restartCount", "lastState"}
)


def slim_object(each: Plain) -> None:
    """Remove managed fields, which are half of an object, and the images of a node."""
    each["metadata"].pop("managedFields", None)
    each.get("status", {}).pop("images", None)


def slim_foreign_pod(pod: Plain) -> None:
    """Keep only fields about where a pod may run, what it requests and uses, and how it ends."""
    (pod["metadata"].get("annotations") or {}).pop(APPLIED, None)
    spec, status = pod["spec"], pod.get("status", {})
    spec.pop("volumes", None)
    for kind in ("containers", "initContainers"):
        for each in spec.get(kind) or ():
            _keep(each, CONTAINER)
    for kind in ("containerStatuses", "initContainerStatuses"):
        for each in status.get(kind) or ():
            _keep(each, CONTAINER_STATUS)


def _keep(each: Plain, names: frozenset[str]) -> None:
    for name in each.keys() - names:
        del each[name]
