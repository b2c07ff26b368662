"""A gang is bound whole or not at all.

    the job's status has the placement ─▶ pods are created, unbound ─▶ each is bound
                                          └─ one is declined: an error ─┘

Whoever comes after a crash reads how far it got from the cluster alone. With a placement in the
status, what is missing is made and bound; pods of which no status tells are deleted.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from headway.backend.kubernetes.client.api import Api, Plain
from headway.backend.kubernetes.placement.filters import Around, claims_of, late
from headway.backend.kubernetes.platform import pod_status
from headway.errors import Declined

T = TypeVar("T")
AT_ONCE = 8
"""Calls under way at the same time for one gang."""
EXISTS = 409
SELECTED = "volume.kubernetes.io/selected-node"


@dataclass(frozen=True, slots=True)
class Gang:
    job: Plain
    made: Mapping[str, Plain]
    """Replica (`worker-0`) to its pod, as it is there or is to be made."""
    where: Mapping[str, str]
    """Replica to node."""
    around: Around


def launch(api: Api, gang: Gang) -> None:
    """All of it, or an error: then whoever asked takes down what is up."""
    space = f"/api/v1/namespaces/{gang.job['metadata']['namespace']}"
    if len(gang.made) > 1:
        _create(api, f"{space}/services", pod_status.service(gang.job))
    fresh = [pod for pod in gang.made.values() if "uid" not in pod["metadata"]]
    _each(lambda pod: _create(api, f"{space}/pods", pod), fresh)
    bind(api, gang.made, gang.where, gang.around)


def bind(api: Api, made: Mapping[str, Plain], where: Mapping[str, str], around: Around) -> None:
    """Those that are not bound yet. Claims that wait for it are told the node first."""
    for replica, pod in made.items():
        _select(api, pod, where[replica], around)
    _each(lambda replica: _bind(api, made[replica], where[replica]), list(made))


def status_path(job: Plain) -> str:
    return f"{path_of(job)}/status"


def path_of(job: Plain) -> str:
    about = job["metadata"]
    return (
        f"/apis/{pod_status.VERSION}/namespaces/{about['namespace']}/trainingjobs/{about['name']}"
    )


def pod_path(pod: Plain) -> str:
    about = pod["metadata"]
    return f"/api/v1/namespaces/{about['namespace']}/pods/{about['name']}"


def _create(api: Api, path: str, body: Plain) -> None:
    try:
        api.create(path, body)
    except Declined as error:
        if error.status != EXISTS:  # made already, by us or by whoever led before
            raise


def _select(api: Api, pod: Plain, node: str, around: Around) -> None:
    space = pod["metadata"]["namespace"]
    for name in claims_of(pod):
        claim = around.claims.get((space, name))
        if claim is not None and not claim["spec"].get("volumeName") and late(claim, around):
            path = f"/api/v1/namespaces/{space}/persistentvolumeclaims/{name}"
            api.patch(path, {"metadata": {"annotations": {SELECTED: node}}})


def _bind(api: Api, pod: Plain, node: str) -> None:
    if (pod.get("spec") or {}).get("nodeName") == node:
        return
    about = pod["metadata"]
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": about["name"], "namespace": about["namespace"]},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    api.create(f"{pod_path(pod)}/binding", body)


def _each(call: Callable[[T], None], items: Sequence[T]) -> None:
    """All are tried; the first error, if there was one, comes out when all are done."""
    if len(items) < 2:
        for item in items:
            call(item)
        return
    with ThreadPoolExecutor(AT_ONCE) as pool:
        under_way = [pool.submit(call, item) for item in items]
    for each in under_way:
        each.result()
