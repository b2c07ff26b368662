"""Clean up after an uninstallation: remove finalizers, so that pods do not wait for an operator,
and restore declared CPU requests and limits.
"""

import logging
from http import HTTPStatus
from typing import Any

from headway.backend.kubernetes.client.api import Api, Plain, pod_path, suppressed
from headway.backend.kubernetes.client.informer import key_of
from headway.backend.kubernetes.client.slim import slim_object
from headway.backend.kubernetes.placement.node_info import OVER, node_of
from headway.backend.kubernetes.platform import pod_cpu
from headway.backend.kubernetes.platform.pod_builder import JOB
from headway.backend.kubernetes.platform.pod_calls import forget_declared, unfinalize
from headway.backend.kubernetes.platform.pod_status import has_finalizer
from headway.errors import Declined, Denied

log = logging.getLogger("headway")


def remove_finalizers(api: Api, namespace: str = "") -> int:
    """Remove the finalizers of the pods of all training jobs, or of those of a namespace; return
    their number.
    """
    kept = [pod for pod in _pods(api, namespace, labelSelector=JOB) if has_finalizer(pod)]
    for pod in kept:
        unfinalize(api, pod)
    return len(kept)


def restore_shares(api: Api, namespace: str = "") -> int:
    """Restore the declared values of all resized pods, including adopted ones; return their number.
    Requests that become smaller are restored first, so that a quota allows the others.
    """
    nodes = {n["metadata"]["name"]: n for n in api.list("/api/v1/nodes")[0]}
    resized = [
        pod
        for pod in _pods(api, namespace)
        if pod_cpu.is_noted(pod) and pod["status"].get("phase") not in OVER
    ]
    resized.sort(key=lambda pod: pod_cpu.declared(pod).request - pod_cpu.spec_of(pod).request)
    return sum(restore(api, pod, nodes.get(node_of(pod))) for pod in resized)


def restore(api: Api, pod: Plain, node: Plain | None) -> bool:
    path, about = pod_path(*key_of(pod)), {"uid": pod["metadata"]["uid"]}
    own = pod_cpu.restored(pod_cpu.checked(pod, node), node)
    body = {**pod_cpu.resize(pod, own), "metadata": about}
    try:
        with suppressed(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
            api.patch(f"{path}/resize", body, kind="strategic-merge")
            forget_declared(api, pod)
            return True
    except (Denied, Declined) as error:
        log.warning("pod %s keeps its share: %s", "/".join(key_of(pod)), error.message)
    return False


def _pods(api: Api, namespace: str, **query: Any) -> list[Plain]:
    within = f"/namespaces/{namespace}" if namespace else ""
    return api.list(f"/api/v1{within}/pods", slim_object, **query)[0]
