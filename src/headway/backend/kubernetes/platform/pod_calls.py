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
"""Calls under way at the same time for one gang."""

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
    """Built here, one by one: each pod of a large gang names all its hosts."""
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
    """By uid, as all writes to a pod: another one of the same name is left alone."""
    gate = {"name": pod_builder.GATE, "$patch": "delete"}
    return _change(api, pod, {"spec": {"schedulingGates": [gate]}})


def proceed(api: Api, pod: Plain) -> Plain:
    return _change(api, pod, {"metadata": {"annotations": {pod_builder.PROCEED: "true"}}})


def trust(api: Api, pod: Plain, certificate: str) -> Plain:
    return _change(api, pod, {"metadata": {"annotations": {BUNDLE: certificate}}})


def unfinalize(api: Api, pod: Plain) -> None:
    """Its deletion need not wait for Headway."""
    with suppressed(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
        _change(
            api, pod, {"metadata": {"$deleteFromPrimitiveList/finalizers": [pod_builder.FINALIZER]}}
        )


def delete(api: Api, path: str, uid: str, grace: Seconds | None) -> bool:
    """False: there is none. `uid` "": of a pod that was not seen yet. Another pod, which no
    TrainingJob owns, may have its name.
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
    about = {**change.get("metadata", {}), "uid": pod["metadata"]["uid"]}
    return api.patch(pod_path(*key_of(pod)), {**change, "metadata": about}, kind="strategic-merge")


def resize(api: Api, pod: Plain, cpu: Cpu) -> Plain:
    """Only this version of this pod. What it declares is noted on it first."""
    path = pod_path(*key_of(pod))
    if not pod_cpu.is_noted(pod):
        noted = {"annotations": {pod_cpu.DECLARED: pod_cpu.annotation(pod)}}
        pod = api.patch(path, {"metadata": {**_version(pod), **noted}}, kind="strategic-merge")
    body = {**pod_cpu.resize(pod, cpu), "metadata": _version(pod)}
    return api.patch(f"{path}/resize", body, kind="strategic-merge")


def forget_declared(api: Api, pod: Plain) -> None:
    """It has what it declares."""
    _change(api, pod, {"metadata": {"annotations": {pod_cpu.DECLARED: None}}})


def _version(pod: Plain) -> Plain:
    return {name: pod["metadata"][name] for name in ("uid", "resourceVersion")}


def in_parallel(calls: Sequence[Callable[[], T]]) -> list[T]:
    """All are tried; the first error, if there was one, is raised when all are done."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        submitted = [pool.submit(call) for call in calls]
    return [each.result() for each in submitted]
