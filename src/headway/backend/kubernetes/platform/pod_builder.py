"""Builds the pod of a replica from its manifest. No calls to a cluster.

Precedence: what Headway sets, then the manifest, then the user's `podTemplate`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

from headway.spec.manifest import GROUP, VERSION, ResourceSpec, TaskSpec, TrainingJobSpec
from headway.spec.pod_fields import TRAINING, Mount

SCHEDULER = "headway"
FOLDER = "/headway"
"""`HEADWAY_DIR` in a pod: an emptyDir, unless the task mounts something there."""
GPU = "nvidia.com/gpu"

SAFE_POD = {
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "runAsGroup": 1000,
    "fsGroup": 1000,
    "seccompProfile": {"type": "RuntimeDefault"},
}
SAFE_CONTAINER = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
"""Defaults that a podTemplate can change: unprivileged, writes only to mounted folders."""

Plain = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The TrainingJob that owns the pods; they are deleted with it."""

    name: str
    namespace: str
    uid: str

    @property
    def domain(self) -> str:
        """Domain of its replicas; differs from that of an earlier job of the same name."""
        return f"{self.name}-{self.uid[:5]}"

    @property
    def reference(self) -> Plain:
        return {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": "TrainingJob",
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }


def pod_name(job: str, task: str, index: int) -> str:
    return f"{job}-{task}-{index}"


def labels(job: str, task: str, index: int) -> dict[str, str]:
    found = {"job": job, "task": task, "replica": f"{task}-{index}", "gang": job}
    return {f"{GROUP}/{k}": v for k, v in found.items()}


def to_pod(
    owner: Owner,
    spec: TrainingJobSpec,
    task: TaskSpec,
    index: int,
    *,
    attempt: int,
    env: Mapping[str, str],
) -> Plain:
    """`env`: variables that Headway sets."""
    template = task.pod_template
    given = template.spec if template else {}
    ours = labels(owner.name, task.name, index)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(owner.name, task.name, index),
            "namespace": owner.namespace,
            "labels": {**(template.metadata.labels if template else {}), **ours},
            "annotations": {
                **(template.metadata.annotations if template else {}),
                f"{GROUP}/attempt": str(attempt),
            },
            "ownerReferences": [owner.reference],
        },
        "spec": {
            "automountServiceAccountToken": "serviceAccountName" in given,
            "enableServiceLinks": False,
            "securityContext": SAFE_POD,
            **given,
            **_scheduling(spec, task),
            "hostname": pod_name(owner.name, task.name, index),
            "subdomain": owner.domain,
            **_containers(task, given, {**task.env, **env}),
        },
    }


def to_service(owner: Owner) -> Plain:
    """Headless service of a gang: `JOB-TASK-INDEX.JOB-UID` is the host of a replica."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": owner.domain,
            "namespace": owner.namespace,
            "labels": {f"{GROUP}/job": owner.name},
            "ownerReferences": [owner.reference],
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,  # replicas wait for each other before they are ready
            "selector": {f"{GROUP}/job": owner.name},
        },
    }


def _scheduling(spec: TrainingJobSpec, task: TaskSpec) -> Plain:
    found: Plain = {
        "schedulerName": SCHEDULER,
        "restartPolicy": "Never",  # the controller decides about retries
        "terminationGracePeriodSeconds": ceil(spec.checkpoint.grace_seconds),
    }
    if spec.active_deadline_seconds is not None:
        found["activeDeadlineSeconds"] = max(1, ceil(spec.active_deadline_seconds))
    if task.node_selector:
        found["nodeSelector"] = dict(task.node_selector)
    if task.tolerations:
        found["tolerations"] = [_plain(t) for t in task.tolerations]
    return found


def _containers(task: TaskSpec, given: Mapping[str, Any], env: Mapping[str, str]) -> Plain:
    """Containers and volumes."""
    containers = given.get("containers", [])
    own: Plain = next((c for c in containers if c.get("name") == TRAINING), {})
    mounted = [m.path for m in task.mounts] + [m["mountPath"] for m in own.get("volumeMounts", ())]
    added = [p for p in (FOLDER, "/tmp") if p not in mounted]  # noqa: S108 - the pod's own
    named = [(f"mount-{i}", m) for i, m in enumerate(task.mounts)]
    volumes = [{"name": name, **_volume(m)} for name, m in named]
    volumes += [{"name": f"headway-{i}", "emptyDir": {}} for i, _ in enumerate(added)]
    seen = [{"name": name, **_seen(m)} for name, m in named]
    seen += [{"name": f"headway-{i}", "mountPath": path} for i, path in enumerate(added)]
    return {
        "volumes": [*given.get("volumes", ()), *volumes],
        "containers": [
            _container(task, own, env, seen),
            *(c for c in containers if c.get("name") != TRAINING),
        ],
    }


def _container(
    task: TaskSpec, own: Mapping[str, Any], env: Mapping[str, str], seen: list[Plain]
) -> Plain:
    written = {"HOME": "/tmp", **env}  # noqa: S108 - an emptyDir
    kept = [e for e in own.get("env", ()) if e.get("name") not in env]
    known = {e.get("name") for e in kept}
    found: Plain = {
        "securityContext": SAFE_CONTAINER,
        # The last log lines come with the status: Headway is not allowed to read logs.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **own,
        "name": TRAINING,
        "image": task.image or own.get("image", ""),
        "env": kept + [{"name": k, "value": v} for k, v in written.items() if k not in known],
        "envFrom": [*own.get("envFrom", ()), *(_plain(e) for e in task.env_from)],
        "volumeMounts": [*own.get("volumeMounts", ()), *seen],
        "resources": _resources(task.resources, own.get("resources", {})),
    }
    if task.command:
        found["command"] = list(task.command)
    if task.working_dir:
        found["workingDir"] = task.working_dir
    return found


def _resources(asked: ResourceSpec, given: Mapping[str, Any]) -> Plain:
    requests, limits = asked.requests, asked.limits
    gpu = {GPU: str(ceil(requests.gpu))} if requests.gpu else {}
    return {
        **given,
        "requests": {**given.get("requests", {}), **_amounts(requests.cpu, requests.memory), **gpu},
        "limits": {**given.get("limits", {}), **_amounts(limits.cpu, limits.memory), **gpu},
    }


def _amounts(cpu: float | None, memory: float | None) -> dict[str, str]:
    found = {}
    if cpu:
        found["cpu"] = f"{ceil(cpu * 1000 - 1e-9)}m"
    if memory:
        found["memory"] = str(ceil(memory))
    return found


def _volume(mount: Mount) -> Plain:
    if mount.claim is not None:
        return {"persistentVolumeClaim": {"claimName": mount.claim, "readOnly": mount.read_only}}
    if mount.config_map is not None:
        return {"configMap": {"name": mount.config_map}}
    if mount.secret is not None:
        return {"secret": {"secretName": mount.secret}}
    return {"emptyDir": {"sizeLimit": str(ceil(mount.scratch or 0.0))}}


def _seen(mount: Mount) -> Plain:
    found: Plain = {"mountPath": mount.path, "readOnly": mount.read_only}
    return found | ({"subPath": mount.sub_path} if mount.sub_path else {})


def _plain(model: Any) -> Plain:
    found: Plain = model.model_dump(by_alias=True, exclude_none=True, exclude_defaults=True)
    return found
