"""What the status of a pod says about its replica."""

from datetime import datetime, timedelta

from headway.backend.kubernetes.client.api import Plain
from headway.backend.kubernetes.placement.node_info import OVER, node_of
from headway.backend.kubernetes.platform.pod_builder import FINALIZER, GATE, WAITER
from headway.backend.kubernetes.platform.pod_cpu import container_of

STUCK = {
    "ErrImagePull": "check the name of the image, and that the nodes can pull it",
    "ImagePullBackOff": "check the name of the image, and that the nodes can pull it",
    "ErrImageNeverPull": "load the image onto the nodes, or change its pull policy",
    "InvalidImageName": "correct the name of the image",
    "CreateContainerConfigError": "create the config map or secret that it refers to",
    "CreateContainerError": "check its command and mounts",
    "RunContainerError": "check its command",
}
"""Waiting reasons of a container that does not start, and what to do about each."""
ENDED = ("Evicted", "DeadlineExceeded", "NodeLost", "Shutdown", "Terminated", "Preempting")
"""Reasons for which a node ends a pod that it had accepted. Any other reason of a pod that never
ran: the node rejected it.
"""


def is_prepared(pod: Plain) -> bool:
    """Whether a pod is bound and waits for the rest of its gang."""
    waits = any(c["name"] == WAITER for c in pod["spec"].get("initContainers") or ())
    return waits and bool(node_of(pod)) and pod["status"].get("phase") == "Pending"


def waiter_runs(pod: Plain) -> bool:
    """Whether the node has started the container in which the pod waits."""
    return "running" in _state(pod, WAITER, "initContainerStatuses")


def has_finalizer(pod: Plain) -> bool:
    return FINALIZER in (pod["metadata"].get("finalizers") or ())


def is_gated(pod: Plain) -> bool:
    return any(g["name"] == GATE for g in pod["spec"].get("schedulingGates") or ())


def is_over(pod: Plain, node_up: bool) -> bool:
    """Whether no container of a pod runs or will run."""
    if pod["status"].get("phase") in OVER:
        return True
    about = pod["metadata"]
    forced = about.get("deletionGracePeriodSeconds") == 0 and not node_up
    return bool(about.get("deletionTimestamp")) and (not node_of(pod) or forced)


def exit_code(pod: Plain) -> int:
    """Return the exit code of the training container, regardless of the others; 1: unknown."""
    ended = _state(pod).get("terminated")
    if ended is None:
        return 0 if pod["status"].get("phase") == "Succeeded" else 1
    return int(ended.get("exitCode", 1))


def succeeded(pod: Plain) -> bool:
    """Whether the training exited with 0 by itself, regardless of sidecars. A pod that its node
    ended has a reason (Evicted, DeadlineExceeded, ...) and may have exited with 0 on SIGTERM.
    """
    if exit_code(pod) or interrupted(pod):
        return False
    ended_by_node = pod["status"].get("phase") == "Failed" and pod["status"].get("reason")
    deleted = pod["metadata"].get("deletionTimestamp")  # later: it was not interrupted
    return not ended_by_node and bool(deleted or not disrupted(pod))


def interrupted(pod: Plain) -> bool:
    """Whether a pod was asked to stop before it ended: its exit code does not show success."""
    about = pod["metadata"]
    if not about.get("deletionTimestamp"):
        return False
    ended = (_state(pod).get("terminated") or {}).get("finishedAt")
    grace = timedelta(seconds=int(about.get("deletionGracePeriodSeconds") or 0))
    asked = datetime.fromisoformat(about["deletionTimestamp"]) - grace
    return ended is None or datetime.fromisoformat(ended) >= asked


def stuck(pod: Plain) -> tuple[str, str]:
    """Return why a container does not start: reason and message; "": it is starting."""
    for state in (_state(pod, WAITER, "initContainerStatuses"), _state(pod)):
        waits = state.get("waiting") or {}
        reason = str(waits.get("reason", ""))
        if reason in STUCK:
            return reason, f"{waits.get('message') or reason}: {STUCK[reason]}"
    return "", ""


def unschedulable(pod: Plain) -> str:
    """Return why kube-scheduler cannot bind a pod; "": it can, or is making room for it."""
    if pod["status"].get("nominatedNodeName"):
        return ""
    for each in pod["status"].get("conditions") or ():
        if each["type"] == "PodScheduled" and each.get("reason") == "Unschedulable":
            return str(each.get("message") or "Unschedulable")
    return ""


def rejected(pod: Plain) -> str:
    """Return why the node rejected a pod; "": it did not. Its kubelet may report containers that it
    has never created.
    """
    status = pod["status"]
    reason, ended = str(status.get("reason", "")), _state(pod).get("terminated") or {}
    ran = ended and ended.get("reason") != "ContainerStatusUnknown"
    if status.get("phase") == "Failed" and reason and reason not in ENDED and not ran:
        return f"{reason}: {status.get('message', '')}"
    return ""


def disrupted(pod: Plain) -> str:
    """Return why the cluster ended a pod (eviction, preemption, lost node); "": it did not."""
    for each in pod["status"].get("conditions") or ():
        if each["type"] == "DisruptionTarget" and each["status"] == "True":
            return f"{each.get('reason', 'DisruptionTarget')}: {each.get('message', '')}"
    return ""


def failure(pod: Plain) -> str:
    """Return why a pod failed."""
    status, ended = pod["status"], _state(pod).get("terminated") or {}
    if status.get("reason") and not ended.get("exitCode"):
        return f"{status['reason']}: {status.get('message', '')}"
    if ended.get("reason") == "OOMKilled":
        return "OOMKilled: exceeded its memory limit"
    last = str(ended.get("message", "")).strip().splitlines()
    return f"exited with code {ended.get('exitCode', 1)}" + (f": {last[-1]}" if last else "")


def _state(pod: Plain, name: str = "", of: str = "containerStatuses") -> Plain:
    """Return the state of a container, by default the one that trains."""
    name = name or container_of(pod)
    for each in pod["status"].get(of) or ():
        if each["name"] == name:
            found: Plain = each.get("state") or {}
            return found
    return {}
