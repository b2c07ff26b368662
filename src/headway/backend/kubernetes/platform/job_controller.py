"""Jobs come: made by a run as they become due, or found in the cluster, perhaps begun before us."""

from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from headway.backend.kubernetes.client.api import Plain
from headway.backend.kubernetes.placement import feasibility, filters
from headway.backend.kubernetes.platform import pod_status
from headway.backend.kubernetes.platform.job_status import JobStatus, seconds, spec_of
from headway.backend.state import Work
from headway.core.model.job import Phase
from headway.core.model.snapshot import Trigger
from headway.core.model.units import JobId, NodeId, ReplicaId, Seconds
from headway.errors import BackendError, Declined, HeadwayError
from headway.spec.manifest import TrainingJobSpec
from headway.spec.runnable import LiveJob

if TYPE_CHECKING:
    from headway.backend.kubernetes.platform.platform import KubernetesBackend

NONSENSE = (ValueError, KeyError, TypeError, AttributeError)


class JobController:
    def __init__(self, backend: "KubernetesBackend") -> None:
        self.backend = backend
        self._made: set[JobId] = set()
        """Those that the cluster has been asked to take."""
        self._left: dict[JobId, Plain | None] = {}
        """Those that were deleted, and who has come in their name since."""

    def admit(self, work: Work) -> bool:
        """It is due: has the cluster got it?"""
        if work.id in self.backend.records:
            return True
        if work.id not in self._made and work.job.manifest is not None:
            self._made.add(work.id)
            body = {
                "apiVersion": pod_status.VERSION,
                "kind": pod_status.KIND,
                "metadata": {
                    "name": work.id,
                    "namespace": self.backend.namespace,
                    "labels": {pod_status.RUN: self.backend.run},
                },
                "spec": pod_status.written(work.job.manifest),
            }
            path = f"/apis/{pod_status.VERSION}/namespaces/{self.backend.namespace}/trainingjobs"
            call = partial(self.backend.cluster.api.create, path, body)
            self.backend.cluster.lane.do(call, failed=partial(self._not_made, work))
        return False

    def _not_made(self, work: Work, error: BackendError) -> None:
        if not isinstance(error, Declined):
            self._made.discard(work.id)  # the next look tries again
            return
        self.backend.coming.remove(work)
        work.reason = f"the cluster does not take it: {error.message}"
        self.backend.end(work, Phase.FAILED)
        self.backend.happened(Trigger.FINISHED)

    def take_in(self, job: Plain) -> None:
        """A job that is new to us; perhaps not to whoever led before."""
        about = job["metadata"]
        name = self.backend.id_of(about["namespace"], about["name"])
        if name in self._left:
            self._left[name] = job
            return
        work = self.backend.works.get(name)
        try:
            spec = spec_of(job)
        except HeadwayError as error:
            if not (job.get("status") or {}).get("finishTime"):
                self.backend.herald.refuse(job, "Invalid", f"{error.where}: {error.message}")
            return
        record = JobStatus.of(job, spec)
        said = job.get("status") or {}
        if work is None:
            if record.finished:
                return
            work = self._work(name, job, spec)
        elif work in self.backend.coming and (
            record.enqueued or work.job.at <= self.backend.clock()
        ):
            self.backend.coming.remove(work)
        self.backend.records[name] = record
        work.tries = int(said.get("failures", 0))
        if record.finished:  # a run that is resumed
            work.started_at = self._at(record.started)
            work.finished_at, work.phase = self._at(record.finished), Phase(said["phase"])
            work.reason = said.get("reason", "")
            self.backend.finished.append(work)
            return
        record.enqueued = record.enqueued or self.backend.herald.now()
        if not self._refused(work, record):
            if record.placement:
                self._take_up(work, record, started=bool(said.get("phase") == Phase.RUNNING))
            else:
                self._enqueue(work, record)
        self.backend.happened(Trigger.ARRIVED)

    def _refused(self, work: Work, record: JobStatus) -> bool:
        """What a `podTemplate` says is anything at all: whoever reads it later must not stumble."""
        try:
            made = self.backend.pods_of(record, self.backend.gang_of(work))
            for pod in made.values():
                filters.understand(pod)
            bad = next((w for p in made.values() if (w := filters.unsupported(p))), "")
            why = f"{bad} is not supported: leave it out, or use another scheduler" if bad else ""
            sized = tuple(feasibility.sized(t, made[f"{t.name}-0"]) for t in work.spec.tasks)
            work.spec = replace(work.spec, tasks=sized)
        except NONSENSE as error:
            why = f"its podTemplate is no pod: {type(error).__name__} {error}"
        if why:
            work.reason = why
            record.placement = {}
            record.say("Accepted", False, "Unsupported", why)
            self.backend.end(work, Phase.FAILED)
        return bool(why)

    def _work(self, name: JobId, job: Plain, spec: TrainingJobSpec) -> Work:
        at = max(0.0, seconds(job["metadata"]["creationTimestamp"]) - self.backend.clock.began)
        core = spec.to_core(kind=" ".join(spec.tasks[0].command))
        made = LiveJob(
            id=name, at=min(at, self.backend.clock()), spec=core, commands={}, manifest=spec
        )
        self.backend.works[name] = work = Work(made, self.backend.folder / "jobs" / name)
        return work

    def _at(self, said: str) -> Seconds | None:
        return seconds(said) - self.backend.clock.began if said else None

    def _enqueue(self, work: Work, record: JobStatus) -> None:
        record.say("Accepted", True, "Accepted", "it can be run here")
        self.backend.look_again()
        self.backend.set_phase(work, work.queued)

    def _take_up(self, work: Work, record: JobStatus, *, started: bool) -> None:
        """It has a placement: go on with it. What is missing of a gang that never ran is made; of
        one that did, it has failed.
        """
        work.started_at = self._at(record.started)
        there = {
            p["metadata"]["labels"].get(pod_status.REPLICA): p
            for p in self.backend.cluster.of_job(record.job)
            if pod_status.epoch_of(p) == record.epoch
        }
        for rank, (name, node) in enumerate(record.placement.items()):
            m = self.backend.start(
                work, ReplicaId.named(work.id, name), NodeId(node), (rank, len(record.placement))
            )
            m.pod = there.get(name)
        self.backend.resume_at(work, Phase.RUNNING if started else Phase.STARTING)
        chief = self.backend.members.get(work.chief())
        if chief is not None and chief.pod and chief.pod["status"].get("phase") == "Succeeded":
            self.backend.pod_over(chief, 0)  # it is done, whatever has become of the others
        elif not started:
            gone = [n for n in record.placement.values() if not self.backend.cluster.is_up(n)]
            if gone:
                self.backend.let_go(work, f"{gone[0]}, where it was to go, is gone")
            else:
                self.backend.launch(work, record)
        else:
            for m in self.backend.members_of(work):
                if m.pod is None:
                    self.backend.vanished(m)

    def changed(self, before: Plain | None, new: Plain | None) -> None:
        about = (new or before or {})["metadata"]
        name = self.backend.id_of(about["namespace"], about["name"])
        record = self.backend.records.get(name)
        if new is None:
            self._deleted(name)
        elif record is None:
            if before is None or before["metadata"].get("generation") != about.get("generation"):
                self.take_in(new)
        else:
            record.job = new
            work = self.backend.works[name]
            if before and about.get("generation") != before["metadata"].get("generation"):
                self._respecified(work, record)

    def _respecified(self, work: Work, record: JobStatus) -> None:
        """Its manifest was changed: that counts as long as it has not started."""
        if work.members or work.finished_at is not None:
            return
        with suppress(HeadwayError):
            record.spec = spec_of(record.job)
            work.spec = record.spec.to_core(kind=work.spec.kind)
            if not self._refused(work, record) and work.again_at is None:
                self._enqueue(work, record)
            self.backend.happened(Trigger.ARRIVED)

    def _deleted(self, name: JobId) -> None:
        work = self.backend.works.get(name)
        self.backend.records.pop(name, None)
        if work is None:
            return
        self._left[name] = None
        if work.finished_at is None:
            work.reason, work.again_at = "its TrainingJob was deleted", None
            self.backend.end(work, Phase.CANCELLED)
            self.backend.happened(Trigger.FINISHED)

    def let_go(self, name: JobId) -> None:
        """It has ended, and its name is free once that has been told."""
        self._left[name] = None

    def forget(self) -> None:
        """Who was deleted, and has been told of for the last time. The names are free again."""
        if self.backend.run:
            return  # its result will want them
        for name in list(self._left):
            work = self.backend.works[name]
            if work.finished_at is not None:
                del self.backend.works[name]
                self.backend.finished.remove(work)
                after = self._left.pop(name)
                if after is not None:
                    self.take_in(after)
