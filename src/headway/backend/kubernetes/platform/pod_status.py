"""Replicas as pods: what each is told, and what is read from those that are there.

How one is made stands in `pod_builder.py`.
"""

import json
from collections.abc import Sequence
from math import ceil
from typing import Any

from headway.backend.kubernetes.client.api import Plain
from headway.backend.kubernetes.platform.pod_builder import FOLDER, Owner, to_pod, to_service
from headway.core.model.units import ReplicaId
from headway.spec.manifest import TaskSpec, TrainingJobSpec
from headway.spec.pod_fields import TRAINING
from headway.spec.runnable import POOLS

LABEL = "headway.dev"
RUN, JOB = f"{LABEL}/run", f"{LABEL}/job"
REPLICA, EPOCH = f"{LABEL}/replica", f"{LABEL}/epoch"
AMOUNTS = (
    "cpu", "memory", "scratch", "graceSeconds", "activeDeadlineSeconds", "ttlSecondsAfterFinished",
)  # fmt: skip
VERSION, KIND = "headway.dev/v1alpha1", "TrainingJob"
RENDEZVOUS, SERVICE = 29500, 2222
"""Ports that frameworks expect: of PyTorch's meeting place, and of each TensorFlow process."""
STUCK = {
    "ErrImagePull": "check the image's name, and that the nodes may pull it",
    "ImagePullBackOff": "check the image's name, and that the nodes may pull it",
    "ErrImageNeverPull": "load the image onto the nodes, or change its pull policy",
    "InvalidImageName": "correct the image's name",
    "CreateContainerConfigError": "create the config map or secret that it names",
    "CreateContainerError": "check its command and mounts",
    "RunContainerError": "check its command",
}
"""Why a container does not start, and what to do about it."""
ENDED = ("Evicted", "DeadlineExceeded", "NodeLost", "Shutdown", "Terminated", "Preempting")
"""Why a node ends a pod that it had taken. Any other reason, of a pod that never ran: it did not
take it.
"""


def owner(job: Plain) -> Owner:
    about = job["metadata"]
    return Owner(name=about["name"], namespace=about["namespace"], uid=about["uid"])


def service(job: Plain) -> Plain:
    return to_service(owner(job))


def make(job: Plain, spec: TrainingJobSpec, replica: str, epoch: int, gang: Sequence[str]) -> Plain:
    """Its name can be given once only: so nobody makes the same start twice."""
    started = ReplicaId(replica)
    task = next(t for t in spec.tasks if t.name == started.task)
    env = pools(task) | told(job, replica, epoch, gang)
    made = to_pod(owner(job), spec, task, started.index, epoch=epoch, env=env)
    about = made["metadata"]
    about["name"] += f"-{epoch}"
    about["labels"][EPOCH] = str(epoch)
    run = (job["metadata"].get("labels") or {}).get(RUN)
    if run:
        about["labels"][RUN] = run
    return made


def pools(task: TaskSpec) -> dict[str, str]:
    """Sizes of thread pools, where it says how much CPU it takes and not how large they are."""
    cpu = task.resources.limits.cpu or task.resources.requests.cpu
    return {name: str(ceil(cpu)) for name in POOLS if name not in task.env} if cpu else {}


def told(job: Plain, replica: str, epoch: int, gang: Sequence[str]) -> dict[str, str]:
    """What a replica finds in its environment."""
    name, space = job["metadata"]["name"], job["metadata"]["namespace"]
    domain = owner(job).domain
    here = ReplicaId(replica)
    found = {
        "HEADWAY_DIR": FOLDER,
        "HEADWAY_CHECKPOINT_DIR": f"{FOLDER}/checkpoint",
        "HEADWAY_JOB": name,
        "HEADWAY_TASK": here.task,
        "HEADWAY_REPLICA": replica,
        "HEADWAY_EPOCH": str(epoch),
    }
    if len(gang) > 1:
        hosts: dict[str, list[str]] = {}
        for each in gang:
            host = f"{name}-{each}.{domain}.{space}.svc:{SERVICE}"
            hosts.setdefault(ReplicaId(each).task, []).append(host)
        mine = {"type": here.task, "index": here.index}
        found |= {
            "MASTER_ADDR": f"{name}-{gang[0]}.{domain}.{space}.svc",
            "MASTER_PORT": str(RENDEZVOUS),
            "RANK": str(gang.index(replica)),
            "WORLD_SIZE": str(len(gang)),
            "TF_CONFIG": json.dumps({"cluster": hosts, "task": mine}),
        }
    return found


def name_of(job: str, replica: str, epoch: int) -> str:
    return f"{job}-{replica}-{epoch}"


def written(spec: TrainingJobSpec) -> Plain:
    """A manifest as the API server takes it: amounts that are not whole are strings."""
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


# -- as they are found -----------------------------------------------------------------------------


def epoch_of(pod: Plain) -> int:
    said = (pod["metadata"].get("labels") or {}).get(EPOCH, "0")
    return int(said) if said.isdigit() else 0


def code_of(pod: Plain) -> int:
    """How the training ended; 1: nobody knows."""
    ended = _state(pod).get("terminated") or {}
    return int(ended.get("exitCode", 1))


def out_of_memory(pod: Plain) -> bool:
    return (_state(pod).get("terminated") or {}).get("reason") == "OOMKilled"


def stuck(pod: Plain) -> tuple[str, str]:
    """Why its container does not start, in a word and in a sentence; "": nothing is wrong."""
    waits = _state(pod).get("waiting") or {}
    reason = str(waits.get("reason", ""))
    if reason not in STUCK:
        return "", ""
    return reason, f"{waits.get('message') or reason}: {STUCK[reason]}"


def late(pod: Plain) -> str:
    """What may be wrong where nobody says why it does not start."""
    name, space = pod["metadata"]["name"], pod["metadata"]["namespace"]
    return (
        "its node has not started it yet: check the config maps, secrets and claims that it mounts "
        f"(kubectl describe pod {name} -n {space})"
    )


def declined(pod: Plain) -> str:
    """Why its node would not take it; "": it did, or was not asked."""
    status = pod["status"]
    reason = str(status.get("reason", ""))
    if status.get("phase") == "Failed" and reason and reason not in ENDED and not _state(pod):
        return f"{reason}: {status.get('message', '')}"
    return ""


def why(pod: Plain) -> str:
    """What is said of its end; "": nothing beyond its exit code."""
    status, ended = pod["status"], _state(pod).get("terminated") or {}
    if status.get("reason") and not ended:
        return f"{status['reason']}: {status.get('message', '')}"
    last = str(ended.get("message", "")).strip().splitlines()
    if out_of_memory(pod):
        return "it was killed, for it held more memory than it may"
    code = ended.get("exitCode", 1)
    return f"it ended with exit code {code}" + (f": {last[-1]}" if last else "")


def _state(pod: Plain) -> Plain:
    for each in pod["status"].get("containerStatuses") or ():
        if each["name"] == TRAINING:
            found: Plain = each.get("state") or {}
            return found
    return {}
