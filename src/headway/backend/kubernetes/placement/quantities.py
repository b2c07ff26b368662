"""What pods request and nodes have, in our units."""

from collections.abc import Iterable, Mapping

from headway.backend.kubernetes.client.api import Plain
from headway.core.model.units import Resources
from headway.spec.quantity import parse_quantity

GPU = "nvidia.com/gpu"

Amounts = dict[str, float]


def asked(pod: Plain) -> Amounts:
    """Return the requests that kube-scheduler counts for a pod: of its containers and sidecars, or
    of an init container and the sidecars before it, if that is more; or of the pod as a whole.
    During a resize: the largest of the wanted, allocated and used amounts.
    """
    spec, told = pod["spec"], _told(pod)
    steady = _sum(_requests(c, told) for c in spec["containers"])
    sidecars: Amounts = {}
    begin: list[Amounts] = []
    for each in spec.get("initContainers") or ():
        own = _requests(each, told)
        if each.get("restartPolicy") == "Always":
            sidecars = _sum((sidecars, own))
        else:
            begin.append(_sum((sidecars, own)))
    found = _most((_sum((steady, sidecars)), *begin))
    found |= _parsed(_both(spec.get("resources") or {}))
    return _sum((found, _parsed(spec.get("overhead") or {})))


def _told(pod: Plain) -> dict[str, Plain]:
    """Statuses of its containers by name."""
    status = pod.get("status") or {}
    listed = (status.get("containerStatuses"), status.get("initContainerStatuses"))
    return {each["name"]: each for some in listed for each in some or ()}


def _requests(container: Plain, told: Mapping[str, Plain]) -> Amounts:
    wanted = _parsed(_both(container.get("resources") or {}))
    status = told.get(container["name"], {})
    used = (status.get("resources") or {}).get("requests") or {}
    return _most((wanted, _parsed(used), _parsed(status.get("allocatedResources") or {})))


def _both(given: Plain) -> Plain:
    """A limit is a request too, where none is given."""
    return {**(given.get("limits") or {}), **(given.get("requests") or {})}


def _parsed(amounts: Plain) -> Amounts:
    return {name: parse_quantity(amount) for name, amount in amounts.items()}


def _sum(several: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for each in several:
        for name, amount in each.items():
            total[name] = total.get(name, 0.0) + amount
    return total


def _most(several: Iterable[Amounts]) -> Amounts:
    most: Amounts = {}
    for each in several:
        for name, amount in each.items():
            most[name] = max(most.get(name, 0.0), amount)
    return most


def resources(amounts: Mapping[str, float]) -> Resources:
    return Resources(
        cpu=amounts.get("cpu", 0.0), memory=amounts.get("memory", 0.0), gpu=amounts.get(GPU, 0.0)
    )


def allocatable(node: Plain) -> Amounts:
    return _parsed(node["status"].get("allocatable", {}))
