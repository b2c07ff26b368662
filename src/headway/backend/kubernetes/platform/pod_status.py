"""Pods of replicas: how one is made for an attempt, and what the status of one says."""

from collections.abc import Sequence
from math import ceil
from typing import Any

from headway.backend.kubernetes.client.api import Plain
from headway.backend.kubernetes.platform.pod_builder import FOLDER, Owner, to_pod, to_service
from headway.backend.replica_env import replica_env
from headway.core.model.units import ReplicaId
from headway.spec.manifest import TaskSpec, TrainingJobSpec
from headway.spec.pod_fields import TRAINING
from headway.spec.runnable import POOLS

LABEL = "headway.dev"
RUN, JOB = f"{LABEL}/run", f"{LABEL}/job"
REPLICA, ATTEMPT = f"{LABEL}/replica", f"{LABEL}/attempt"
AMOUNTS = (
    "cpu", "memory", "scratch", "graceSeconds", "activeDeadlineSeconds", "ttlSecondsAfterFinished",
)  # fmt: skip
VERSION, KIND = "headway.dev/v1alpha1", "TrainingJob"
RENDEZVOUS, SERVICE = 29500, 2222
"""Default ports: of PyTorch's rendezvous, and of each TensorFlow process."""
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


# -- for an attempt --------------------------------------------------------------------------------


def owner(job: Plain) -> Owner:
    about = job["metadata"]
    return Owner(name=about["name"], namespace=about["namespace"], uid=about["uid"])


def service(job: Plain) -> Plain:
    return to_service(owner(job))


def make(
    job: Plain,
    spec: TrainingJobSpec,
    replica: ReplicaId,
    attempt: int,
    gang: Sequence[ReplicaId],
) -> Plain:
    """`gang` by rank. The name has the attempt in it, so that no attempt is started twice."""
    task = next(t for t in spec.tasks if t.name == replica.task)
    env = pools(task) | environment(job, replica, attempt, gang)
    made = to_pod(owner(job), spec, task, replica.index, attempt=attempt, env=env)
    about = made["metadata"]
    about["name"] = name_of(job["metadata"]["name"], replica, attempt)
    about["labels"][ATTEMPT] = str(attempt)
    run = (job["metadata"].get("labels") or {}).get(RUN)
    if run:
        about["labels"][RUN] = run
    return made


def name_of(job: str, replica: ReplicaId, attempt: int) -> str:
    return f"{job}-{replica.name}-{attempt}"


def pools(task: TaskSpec) -> dict[str, str]:
    """Sizes of thread pools, if the task says how much CPU it needs and not how large they are."""
    cpu = task.resources.limits.cpu or task.resources.requests.cpu
    return {name: str(ceil(cpu)) for name in POOLS if name not in task.env} if cpu else {}


def environment(
    job: Plain, replica: ReplicaId, attempt: int, gang: Sequence[ReplicaId]
) -> dict[str, str]:
    name, space = job["metadata"]["name"], job["metadata"]["namespace"]
    domain = owner(job).domain

    def host(each: ReplicaId) -> str:
        return f"{name}-{each.name}.{domain}.{space}.svc"

    return replica_env(
        replica,
        attempt,
        folder=FOLDER,
        gang=gang,
        rendezvous=(host(gang[0]), RENDEZVOUS),
        address=lambda each: (host(each), SERVICE),
    )


def written(spec: TrainingJobSpec) -> Plain:
    """A manifest for the API server: amounts that are not whole are strings."""
    dumped = spec.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)
    found: Plain = _amounts(dumped)
    return found


def _amounts(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {k: _amounts(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [_amounts(v) for v in value]
    if isinstance(value, float) and key in AMOUNTS:
        return f"{value:.12g}" if key == "cpu" else f"{value:.0f}"
    return value


# -- as observed -----------------------------------------------------------------------------------


def attempt_of(pod: Plain) -> int:
    label = (pod["metadata"].get("labels") or {}).get(ATTEMPT, "0")
    return int(label) if label.isdigit() else 0


def is_owned_by(pod: Plain, uid: str) -> bool:
    return any(o.get("uid") == uid for o in pod["metadata"].get("ownerReferences") or ())


def exit_code(pod: Plain) -> int:
    """Of the training container of a failed pod; 1: unknown."""
    ended = _state(pod).get("terminated") or {}
    return int(ended.get("exitCode", 1)) or 1


def stuck(pod: Plain) -> tuple[str, str]:
    """Why its container does not start: a reason and a message; "": it is starting."""
    waits = _state(pod).get("waiting") or {}
    reason = str(waits.get("reason", ""))
    if reason not in STUCK:
        return "", ""
    return reason, f"{waits.get('message') or reason}: {STUCK[reason]}"


def rejected(pod: Plain) -> str:
    """Why its node rejected it; "": it did not."""
    status = pod["status"]
    reason = str(status.get("reason", ""))
    if status.get("phase") == "Failed" and reason and reason not in ENDED and not _state(pod):
        return f"{reason}: {status.get('message', '')}"
    return ""


def disrupted(pod: Plain) -> str:
    """Why the cluster ended it (eviction, preemption, lost node); "": it did not."""
    for each in pod["status"].get("conditions") or ():
        if each["type"] == "DisruptionTarget" and each["status"] == "True":
            return f"{each.get('reason', 'DisruptionTarget')}: {each.get('message', '')}"
    return ""


def failure(pod: Plain) -> str:
    """Why it failed."""
    status, ended = pod["status"], _state(pod).get("terminated") or {}
    if status.get("reason") and not ended:
        return f"{status['reason']}: {status.get('message', '')}"
    if ended.get("reason") == "OOMKilled":
        return "OOMKilled: exceeded its memory limit"
    last = str(ended.get("message", "")).strip().splitlines()
    return f"exited with code {ended.get('exitCode', 1)}" + (f": {last[-1]}" if last else "")


def _state(pod: Plain) -> Plain:
    for each in pod["status"].get("containerStatuses") or ():
        if each["name"] == TRAINING:
            found: Plain = each.get("state") or {}
            return found
    return {}
