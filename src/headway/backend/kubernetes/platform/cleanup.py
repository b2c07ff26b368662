"""What an uninstallation must do: pods do not wait for an operator that no longer exists."""

from headway.backend.kubernetes.client.api import Api
from headway.backend.kubernetes.platform.pod_builder import JOB
from headway.backend.kubernetes.platform.pod_runner import unfinalize
from headway.backend.kubernetes.platform.pod_status import has_finalizer


def remove_finalizers(api: Api, namespace: str = "") -> int:
    """Of the pods of all training jobs, or those of one namespace; returns how many had one."""
    within = f"/namespaces/{namespace}" if namespace else ""
    pods, _ = api.list(f"/api/v1{within}/pods", labelSelector=JOB)
    kept = [pod for pod in pods if has_finalizer(pod)]
    for pod in kept:
        unfinalize(api, pod)
    return len(kept)
