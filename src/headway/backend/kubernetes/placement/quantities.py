"""What pods ask for and nodes have, in our units."""

from collections.abc import Iterable, Mapping
from typing import Any

from headway.backend.kubernetes.client.api import Plain
from headway.core.model.units import Resources

GPU = "nvidia.com/gpu"
PLAIN = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})
"""Resources that every node has; all others are extended ones."""
_SUFFIXES = {
    "n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15,
    "E": 1e18, "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50,
    "Ei": 2.0**60,
}  # fmt: skip

Amounts = dict[str, float]


def quantity(text: Any) -> float:
    """As Kubernetes writes amounts.

    >>> quantity("300m"), quantity("2Gi"), quantity("1e3"), quantity(3)
    (0.3, 2147483648.0, 1000.0, 3.0)
    """
    said = str(text)
    number = said.rstrip("KMGTPEimnuk") or "0"
    return float(number) * _SUFFIXES[said[len(number) :]]


def asked(pod: Plain) -> Amounts:
    """What a pod asks for: its containers together, or more where that is needed to begin."""
    spec = pod["spec"]
    begin = spec.get("initContainers", ())
    beside = [c for c in begin if c.get("restartPolicy") == "Always"]
    steady = _sum([*spec["containers"], *beside])
    first = [_requests(c) for c in begin if c not in beside]
    most = {
        k: max([steady.get(k, 0.0), *(a.get(k, 0.0) for a in first)]) for k in _keys(steady, *first)
    }
    for name, amount in spec.get("overhead", {}).items():
        most[name] = most.get(name, 0.0) + quantity(amount)
    return most


def _keys(*amounts: Amounts) -> Iterable[str]:
    return dict.fromkeys(name for each in amounts for name in each)


def _requests(container: Plain) -> Amounts:
    """A limit is a request too, where none is given."""
    given = container.get("resources", {})
    both = {**(given.get("limits") or {}), **(given.get("requests") or {})}
    return {name: quantity(amount) for name, amount in both.items()}


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
    return {k: quantity(v) for k, v in node["status"].get("allocatable", {}).items()}
