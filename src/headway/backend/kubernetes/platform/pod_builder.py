"""Build the pod of a replica, and the service of a gang, from a TrainingJob. Makes no calls.

Precedence: what Headway sets, then the manifest, then the user's `podTemplate`.
"""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from headway.backend.kubernetes.client.api import Plain
from headway.backend.kubernetes.placement.quantities import GPU
from headway.backend.kubernetes.platform.pod_cpu import DECLARED
from headway.backend.replica_env import replica_env
from headway.core.model.units import ReplicaId
from headway.spec.manifest import GROUP, VERSION, ResourceSpec, TaskSpec, TrainingJobSpec
from headway.spec.pod_fields import TRAINING, Mount
from headway.spec.quantity import parse_quantity
from headway.spec.runnable import POOLS, waiting

KIND = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "TrainingJob"}
STANDARD = {
    "app.kubernetes.io/name": "trainingjob",
    "app.kubernetes.io/managed-by": "headway",
}
RUN, JOB, TASK = f"{GROUP}/run", f"{GROUP}/job", f"{GROUP}/task"
REPLICA, ATTEMPT = f"{GROUP}/replica", f"{GROUP}/attempt"
FINALIZER = f"{GROUP}/exit-code"
"""Finalizer that keeps a deleted pod until its end is recorded."""
GATE = f"{GROUP}/gang"
"""Scheduling gate of the pods of a gang, until all of them exist."""
PROCEED = f"{GROUP}/proceed"
"""Annotation of the pods of a gang when all of them are bound."""
WAITER, WAITS_AT = "headway-gang", "/headway-gang"
WAITER_CPU = "10m"
WAIT = f"""\
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
while "true" not in open("{WAITS_AT}/proceed").read():
    time.sleep(0.1)
"""
"""Script of the init container in which a pod of a gang waits."""
GANG_PRIORITY = "headway-gang"
"""PriorityClass of gangs that name none: it does not preempt, because a pod that another one
makes room for would only wait for the rest of its gang."""
FOLDER = "/headway"
"""`HEADWAY_DIR` in a pod: an emptyDir, unless the task mounts something there."""
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
RENDEZVOUS, SERVICE = 29500, 2222
"""Default ports: of PyTorch's rendezvous, and of each TensorFlow process."""

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


def to_pod(
    job: Plain, spec: TrainingJobSpec, replica: ReplicaId, attempt: int, gang: Sequence[ReplicaId]
) -> Plain:
    """Return the pod of a replica. `gang`: replicas by rank. The name contains the attempt, so that
    no attempt is started twice.
    """
    name, run = job["metadata"]["name"], (job["metadata"].get("labels") or {}).get(RUN)
    task = next(t for t in spec.tasks if t.name == replica.task)
    template = task.pod_template
    given = template.spec if template else {}
    labels = {
        **(template.metadata.labels if template else {}),
        **STANDARD,
        "app.kubernetes.io/instance": name,
        "app.kubernetes.io/component": task.name,
        JOB: name,
        TASK: task.name,
        REPLICA: replica.name,
        ATTEMPT: str(attempt),
        **({RUN: run} if run else {}),
    }
    annotations = {**(template.metadata.annotations if template else {}), ATTEMPT: str(attempt)}
    annotations.pop(DECLARED, None)  # only Headway notes this
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **_owned(job, pod_name(name, replica, attempt)),
            "labels": labels,
            "annotations": annotations,
        },
        "spec": {
            "automountServiceAccountToken": "serviceAccountName" in given,
            "enableServiceLinks": False,
            "securityContext": SAFE_POD,
            **given,
            **_scheduling(spec, task),
            "hostname": f"{name}-{replica.name}",
            "subdomain": _domain(job),
            **_containers(task, given, {**task.env, **_env(job, spec, replica, attempt, gang)}),
        },
    }


def placed(pod: Plain, node: str, waiter: str) -> Plain:
    """Return the pod with an affinity to a node; kube-scheduler binds it there.

    `waiter`: image of the container in which the pod waits until all pods of its gang are bound;
    "": it does not wait.
    """
    spec, about = pod["spec"], {**pod["metadata"], "finalizers": [FINALIZER]}
    found = {**spec, "affinity": _only_on(node, spec.get("affinity") or {})}
    if waiter:
        found |= {
            "schedulingGates": [{"name": GATE}],
            "initContainers": [_waiter(waiter, spec), *spec.get("initContainers", ())],
            "volumes": [*spec["volumes"], {"name": WAITER, "downwardAPI": {"items": [_PROCEED]}}],
        }
        if not spec.get("priorityClassName"):
            found["priorityClassName"] = GANG_PRIORITY
    return {**pod, "metadata": about, "spec": found}


_PROCEED = {"path": "proceed", "fieldRef": {"fieldPath": f"metadata.annotations['{PROCEED}']"}}


def _only_on(node: str, given: Plain) -> Plain:
    """Return an affinity that allows only this node, and requires one of the user's terms."""
    by_name = {"key": "metadata.name", "operator": "In", "values": [node]}
    affinity = given.get("nodeAffinity") or {}
    required = affinity.get(REQUIRED) or {}
    terms = [term for term in required.get("nodeSelectorTerms") or () if term] or [{}]
    named = [{**t, "matchFields": [*(t.get("matchFields") or ()), by_name]} for t in terms]
    return {**given, "nodeAffinity": {**affinity, REQUIRED: {"nodeSelectorTerms": named}}}


def _waiter(image: str, spec: Plain) -> Plain:
    """Return the container in which a pod waits. It has the resources of the training, so that the
    pod keeps its requests and its quality of service, and a quota that requires limits accepts it.
    It requests little CPU, because the request of an init container limits how far the weight of
    a pod can be lowered.
    """
    resources = spec["containers"][0]["resources"]
    plain = ("cpu", "memory", "ephemeral-storage")
    found = {
        kind: {name: amount for name, amount in resources[kind].items() if name in plain}
        for kind in ("requests", "limits")
    }
    asked, most = (found[kind].get("cpu") for kind in ("requests", "limits"))
    if asked and asked != most and parse_quantity(asked) > parse_quantity(WAITER_CPU):
        found["requests"]["cpu"] = WAITER_CPU
    return {
        "name": WAITER,
        "image": image,
        "command": ["python3", "-c", WAIT],
        "securityContext": SAFE_CONTAINER,
        "resources": found,
        "volumeMounts": [{"name": WAITER, "mountPath": WAITS_AT, "readOnly": True}],
    }


def pod_name(job: str, replica: ReplicaId, attempt: int) -> str:
    return f"{job}-{replica.name}-{attempt}"


def to_service(job: Plain) -> Plain:
    """Headless service of a gang: `JOB-TASK-INDEX.JOB-UID` is the host of a replica."""
    selector = {JOB: job["metadata"]["name"]}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {**_owned(job, _domain(job)), "labels": {**STANDARD, **selector}},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,  # replicas wait for each other before they are ready
            "selector": selector,
        },
    }


def _domain(job: Plain) -> str:
    """Domain of its replicas; differs from that of an earlier job of the same name."""
    return f"{job['metadata']['name']}-{job['metadata']['uid'][:5]}"


def _owned(job: Plain, name: str) -> Plain:
    """Metadata of an object that is deleted with the job."""
    about = job["metadata"]
    owner = {**KIND, "name": about["name"], "uid": about["uid"]}
    owner |= {"controller": True, "blockOwnerDeletion": True}
    return {"name": name, "namespace": about["namespace"], "ownerReferences": [owner]}


def _env(
    job: Plain, spec: TrainingJobSpec, replica: ReplicaId, attempt: int, gang: Sequence[ReplicaId]
) -> dict[str, str]:
    """Return the environment of a replica. It contains how threads wait and, if the task declares
    its CPU, the sizes of thread pools, unless the task sets them.
    """
    task = next(t for t in spec.tasks if t.name == replica.task)

    def host(each: ReplicaId) -> str:
        about = job["metadata"]
        return f"{about['name']}-{each.name}.{_domain(job)}.{about['namespace']}.svc"

    cpu = task.resources.limits.cpu or task.resources.requests.cpu
    pools = {name: str(ceil(cpu)) for name in POOLS if name not in task.env} if cpu else {}
    own = {"HEADWAY_JOB_UID": str(job["metadata"]["uid"])}
    return (
        pools
        | waiting(task.env)
        | own
        | replica_env(
            replica,
            attempt,
            folder=FOLDER,
            gang=gang,
            rendezvous=(host(gang[0]), RENDEZVOUS),
            address=lambda each: (host(each), SERVICE),
            spec=spec.to_core(kind=""),
        )
    )


def _scheduling(spec: TrainingJobSpec, task: TaskSpec) -> Plain:
    found: Plain = {
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
