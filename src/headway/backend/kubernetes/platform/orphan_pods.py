"""Pods of our jobs that belong to no start that we know of, or to an old one: they are deleted."""

from functools import partial
from typing import TYPE_CHECKING

from headway.backend.kubernetes.client.api import Plain
from headway.backend.kubernetes.placement import gang_binder
from headway.backend.kubernetes.placement.node_info import OVER
from headway.backend.kubernetes.platform import pod_status

if TYPE_CHECKING:
    from headway.backend.kubernetes.platform.job_status import JobStatus
    from headway.backend.kubernetes.platform.platform import KubernetesBackend

KEPT = 2
"""Starts whose pods stay, for whoever wants to read how they ended."""


class OrphanPods:
    def __init__(self, backend: "KubernetesBackend") -> None:
        self.backend = backend
        self.left: list[Plain] = []
        """Those that could not be deleted."""

    def saw(self, pod: Plain) -> None:
        """It is nobody's that we know."""
        if self._is_one(pod):
            self._remove(pod)

    def tidy(self, record: "JobStatus") -> None:
        """What is over of its old starts goes: a job that is declined for good leaves no heap."""
        for pod in self.backend.cluster.of_job(record.job):
            if (
                pod_status.epoch_of(pod) <= record.epoch - KEPT
                and pod["status"].get("phase") in OVER
            ):
                self._remove(pod)

    def try_again(self) -> None:
        left, self.left = self.left, []
        for pod in left:
            if self.backend.member_of(pod) is None:
                self._remove(pod)

    def _is_one(self, pod: Plain) -> bool:
        over = pod["status"].get("phase") in OVER or pod["metadata"].get("deletionTimestamp")
        job = self.backend.job_of(pod)
        return job is not None and job in self.backend.records and not over

    def _remove(self, pod: Plain) -> None:
        """If the server does not answer, it is tried again."""
        path, uid = gang_binder.pod_path(pod), pod["metadata"]["uid"]
        self.backend.cluster.lane.do(
            partial(self.backend.cluster.api.delete, path, grace=0, uid=uid),
            failed=lambda _: self.left.append(pod),
        )
