"""What pods ask for and nodes have, in our units."""

from collections.abc import Iterable, Mapping

from headway.backend.kubernetes.client.api import Plain
from headway.core.model.units import Resources
from headway.spec.quantity import parse_quantity

GPU = "nvidia.com/gpu"
PLAIN = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})
"""Resources that every node has; all others are extended ones."""

Amounts = dict[str, float]


def asked(pod: Plain) -> Amounts:
    """What a pod asks for: its containers together, or more where that is needed to begin."""
    spec = pod["spec"]
    begin = spec.get("initContainers", ())
    beside = [c for c in begin if c.get("restartPolicy") == "Always"]
    steady = _sum([*spec["containers"], *beside])
    first = [_requests(c) for c in begin if c not in beside]
    names = dict.fromkeys(name for each in (steady, *first) for name in each)
    most = {k: max(each.get(k, 0.0) for each in (steady, *first)) for k in names}
    for name, amount in spec.get("overhead", {}).items():
        most[name] = most.get(name, 0.0) + parse_quantity(amount)
    return most


def _requests(container: Plain) -> Amounts:
    """A limit is a request too, where none is given."""
    given = container.get("resources", {})
    both = {**(given.get("limits") or {}), **(given.get("requests") or {})}
    return {name: parse_quantity(amount) for name, amount in both.items()}


def _sum(containers: Iterable[Plain]) -> Amounts:
    total: Amounts = {}
    for each in containers:
        for name, amount in _requests(each).items():
            total[name] = total.get(name, 0.0) + amount
    return total


def resources(amounts: Mapping[str, float]) -> Resources:
    return Resources(
        cpu=amounts.get("cpu", 0.0), memory=amounts.get("memory", 0.0), gpu=amounts.get(GPU, 0.0)
    )


def allocatable(node: Plain) -> Amounts:
    return {k: parse_quantity(v) for k, v in node["status"].get("allocatable", {}).items()}
