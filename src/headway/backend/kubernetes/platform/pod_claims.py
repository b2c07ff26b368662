"""Claims that pods mount: how many pods, on how many nodes, can mount each at a time."""

from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus

from headway.backend.kubernetes.client.api import Api, Plain, suppressed

EXCLUSIVE = "ReadWriteOncePod"
"""Access mode of a claim that one pod at a time can mount, and the reason of a condition."""
SHARED = frozenset({"ReadWriteMany", "ReadOnlyMany"})

Modes = Mapping[str, Sequence[str]]
"""Access modes by claim."""


def mounted(pods: Iterable[Plain]) -> list[str]:
    """Return the names of the claims that these pods mount."""
    volumes = [v for pod in pods for v in pod["spec"].get("volumes") or ()]
    found = [v["persistentVolumeClaim"] for v in volumes if "persistentVolumeClaim" in v]
    return list(dict.fromkeys(str(each.get("claimName")) for each in found))


def read(api: Api, namespace: str, names: Iterable[str]) -> Modes:
    """Return the access modes of claims. Missing ones are left out: kube-scheduler reports them."""
    modes: dict[str, Sequence[str]] = {}
    for name in names:
        with suppressed(HTTPStatus.NOT_FOUND):
            path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}"
            modes[name] = api.get(path)["spec"].get("accessModes") or ()
    return modes


def exclusive(modes: Modes) -> str:
    """Return a claim that only one pod can mount; "": none."""
    return next((name for name, of in modes.items() if EXCLUSIVE in of), "")


def on_one_node(modes: Modes) -> bool:
    """Whether a pod may have to wait for its volume until one on another node has ended."""
    return any(not SHARED.intersection(of) for of in modes.values())
