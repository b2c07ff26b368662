"""Calls that create and change pods, made by the worker thread."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http import HTTPStatus
from typing import TypeVar

from headway.backend.kubernetes.client.api import Api, Plain, pod_path, suppressed
from headway.backend.kubernetes.client.cache import owner_uid
from headway.backend.kubernetes.client.informer import key_of
from headway.backend.kubernetes.platform import pod_builder, pod_cpu, pod_status
from headway.backend.kubernetes.platform.pod_cpu import Cpu
from headway.backend.kubernetes.platform.pod_reports import BUNDLE
from headway.core.model.units import Seconds
from headway.errors import Declined

AT_ONCE = 8
"""Maximum number of simultaneous calls for a gang."""

T = TypeVar("T")


def launch(api: Api, job: Plain, builders: Sequence[Callable[[], Plain]], *, service: bool) -> None:
    """Create a gang, whose placement is persisted; then remove the gates. Pods that exist are kept:
    an earlier leader may have created them. If a call fails, the controller removes all of them.
    """
    path = f"/api/v1/namespaces/{job['metadata']['namespace']}"
    if service:
        with suppressed(HTTPStatus.CONFLICT):
            api.create(f"{path}/services", pod_builder.to_service(job))
    uid = job["metadata"]["uid"]
    pods = in_parallel([partial(_create, api, f"{path}/pods", build, uid) for build in builders])
    in_parallel([partial(_ungate, api, pod) for pod in pods if pod_status.is_gated(pod)])


def _create(api: Api, path: str, build: Callable[[], Plain], uid: str) -> Plain:
    """Build and create a pod. Pods are built one at a time, because each pod of a large gang names
    all hosts.
    """
    pod = build()
    with suppressed(HTTPStatus.CONFLICT):
        return api.create(path, pod)
    name = pod["metadata"]["name"]
    there = api.get(f"{path}/{name}")
    if owner_uid(there) != uid:
        why = f"pod {name} exists and does not belong to this job: delete it"
        raise Declined(why, status=HTTPStatus.CONFLICT)
    return there


def _ungate(api: Api, pod: Plain) -> Plain:
    """Remove the scheduling gate of a pod."""
    gate = {"name": pod_builder.GATE, "$patch": "delete"}
    return _change(api, pod, {"spec": {"schedulingGates": [gate]}})


def proceed(api: Api, pod: Plain) -> Plain:
    return _change(api, pod, {"metadata": {"annotations": {pod_builder.PROCEED: "true"}}})


def trust(api: Api, pod: Plain, certificate: str) -> Plain:
    return _change(api, pod, {"metadata": {"annotations": {BUNDLE: certificate}}})


def unfinalize(api: Api, pod: Plain) -> None:
    """Remove the finalizer of a pod, so that its deletion does not wait for Headway."""
    with suppressed(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
        _change(
            api, pod, {"metadata": {"$deleteFromPrimitiveList/finalizers": [pod_builder.FINALIZER]}}
        )


def delete(api: Api, path: str, uid: str, grace: Seconds | None) -> bool:
    """Delete a pod. Return False if it does not exist. `uid` "": the pod was not seen yet; a pod of
    the same name that no TrainingJob owns is not deleted.
    """
    if not uid:
        there: Plain = {}
        with suppressed(HTTPStatus.NOT_FOUND):
            there = api.get(path)
        if not there or not owner_uid(there):
            return False
        uid = there["metadata"]["uid"]
    return api.delete(path, grace=grace, uid=uid)


def _change(api: Api, pod: Plain, change: Plain) -> Plain:
    """Patch a pod by uid: another pod of the same name is not changed."""
    about = {**change.get("metadata", {}), "uid": pod["metadata"]["uid"]}
    return api.patch(pod_path(*key_of(pod)), {**change, "metadata": about}, kind="strategic-merge")


def resize(api: Api, pod: Plain, cpu: Cpu) -> Plain:
    """Resize this version of a pod, after its declared CPU was stored in an annotation."""
    path = pod_path(*key_of(pod))
    if not pod_cpu.is_noted(pod):
        noted = {"annotations": {pod_cpu.DECLARED: pod_cpu.annotation(pod)}}
        pod = api.patch(path, {"metadata": {**_version(pod), **noted}}, kind="strategic-merge")
    body = {**pod_cpu.resize(pod, cpu), "metadata": _version(pod)}
    return api.patch(f"{path}/resize", body, kind="strategic-merge")


def forget_declared(api: Api, pod: Plain) -> None:
    """Remove the annotation of a pod that has its declared CPU again."""
    _change(api, pod, {"metadata": {"annotations": {pod_cpu.DECLARED: None}}})


def _version(pod: Plain) -> Plain:
    return {name: pod["metadata"][name] for name in ("uid", "resourceVersion")}


def in_parallel(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Make calls in parallel. The first error is raised when all are done."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        submitted = [pool.submit(call) for call in calls]
    return [each.result() for each in submitted]
