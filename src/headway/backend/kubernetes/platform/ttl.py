"""Jobs that have ended and asked not to be kept: `ttlSecondsAfterFinished`.

Nothing is remembered but what the cluster shows, so a new leader buries what an old one did not.
"""

from functools import partial
from time import time

from headway.backend.kubernetes.client.api import Plain
from headway.backend.kubernetes.client.cache import ClusterCache
from headway.backend.kubernetes.client.informer import Key, key_of
from headway.backend.kubernetes.placement import gang_binder
from headway.backend.kubernetes.platform.job_status import seconds, spec_of
from headway.errors import BackendError, HeadwayError

AGAIN = 30.0
"""Seconds until a delete that failed is tried again."""


class TtlController:
    def __init__(self, cluster: ClusterCache) -> None:
        self._cluster = cluster
        self._due: dict[Key, float] = {}
        """By time of day."""

    def saw(self, job: Plain) -> None:
        """It has come, or has changed."""
        ended = (job.get("status") or {}).get("finishTime")
        if not ended or "ttlSecondsAfterFinished" not in job["spec"]:
            return
        try:
            kept = spec_of(job).ttl_seconds_after_finished
        except HeadwayError:
            return  # who cannot be understood stays, with the condition that says so
        if kept is not None:
            self._due[key_of(job)] = seconds(ended) + kept

    def on_time(self) -> None:
        """Delete who is due; their pods go with them. Unless it is another of the name by now."""
        for key in [k for k, at in self._due.items() if at <= time()]:
            del self._due[key]
            job = self._cluster.jobs.get(key)
            if job is None or not (job.get("status") or {}).get("finishTime"):
                continue
            uid = job["metadata"]["uid"]
            call = partial(self._cluster.api.delete, gang_binder.path_of(job), uid=uid)
            self._cluster.lane.do(call, failed=partial(self._again, job))

    def _again(self, job: Plain, _: BackendError) -> None:
        self._due[key_of(job)] = time() + AGAIN
