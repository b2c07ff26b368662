"""Report TrainingJobs of the cluster as events to the controller, and store its states as status.

A run creates its jobs when they are due (`Admit`). An operator finds them in the cluster; their
first status is written when the controller admits them. A job that was deleted keeps its record
until the controller has ended it: a new job of the same name waits until then.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from http import HTTPStatus

from headway.backend.clock import Clock
from headway.backend.kubernetes.client.api import Api, Plain, jobs_path
from headway.backend.kubernetes.client.cache import ClusterCache
from headway.backend.kubernetes.client.informer import key_of
from headway.backend.kubernetes.placement import filters
from headway.backend.kubernetes.platform import pod_claims
from headway.backend.kubernetes.platform.capacity import Capacity
from headway.backend.kubernetes.platform.job_manifest import written
from headway.backend.kubernetes.platform.job_status import JobStatus, arrival, now, seconds, spec_of
from headway.backend.kubernetes.platform.pod_builder import KIND, RUN
from headway.backend.kubernetes.platform.pod_checkpoints import not_movable
from headway.backend.kubernetes.platform.pod_claims import EXCLUSIVE
from headway.backend.kubernetes.platform.size_requests import SizeRequests
from headway.backend.kubernetes.platform.status_writer import StatusWriter
from headway.backend.new_job import new_job
from headway.controller import events
from headway.controller.commands import Admit, DeleteJob
from headway.core.model.job import JobSpec, Mode, Phase
from headway.core.model.units import JobId, ReplicaId
from headway.errors import BackendError, Declined, HeadwayError
from headway.spec.manifest import MOST_ON_A_CLUSTER, TrainingJobSpec
from headway.spec.runnable import RunnableJob, lacks_torchrun

MALFORMED = (ValueError, KeyError, TypeError, AttributeError)
"""Exceptions that an invalid podTemplate causes."""
LARGEST_TEMPLATE = 1 << 16
"""Bytes. The template becomes part of each pod."""
DELETED = "its TrainingJob was deleted"


class TrainingJobs:
    def __init__(
        self,
        cluster: ClusterCache,
        jobs: dict[JobId, RunnableJob],
        clock: Clock,
        writer: StatusWriter,
        capacity: Capacity,
    ) -> None:
        self._cluster, self._jobs, self._clock = cluster, jobs, clock
        self._writer, self._capacity = writer, capacity
        self.records: dict[JobId, JobStatus] = {}
        self.sizes = SizeRequests(writer, can_ask=not cluster.run)

    def load(self) -> list[events.Event]:
        """Create the records of all jobs that exist. Return the events to report after the
        controller is loaded.
        """
        self._writer.lead(self._cluster.jobs.values())
        for each in sorted(self._cluster.jobs.values(), key=arrival):
            name = self._cluster.job_id(*key_of(each))
            if not self._cluster.run or name in self._jobs:
                self._add(each)
        restricted = [
            events.JobRestricted(r.id, r.capabilities) for r in self.records.values() if r.exclusive
        ]
        return restricted + [
            e for r in self.records.values() for e in (*self._about(r), *self.sizes.missed(r))
        ]

    def _add(self, job: Plain) -> JobStatus | None:
        """Create the record of a job; None: the job has ended and needs no further action."""
        name = self._cluster.job_id(*key_of(job))
        record = JobStatus(name, job, TrainingJobSpec(), JobSpec())
        record.note_version(job)
        record.restore(self._clock.began)
        self._parse(record, self._jobs[name].spec if self._cluster.run else None)
        expires = record.spec.ttl_seconds_after_finished is not None and not record.rejected[0]
        if record.settled and not (self._cluster.run or expires):
            return None
        self.records[name] = record
        if self._cluster.run:
            self._jobs[name] = replace(self._jobs[name], spec=record.core)
        else:
            self._jobs[name] = self._live_job(record)
        return record

    def _live_job(self, record: JobStatus) -> RunnableJob:
        created = seconds(record.job["metadata"]["creationTimestamp"]) - self._clock.began
        return RunnableJob(
            id=record.id,
            at=min(max(0.0, created), self._clock()),
            spec=record.core,
            commands={},
            manifest=record.spec,
            metric=record.spec.metric.name,
            pattern=record.spec.reports.pattern or None,
            time_limit=record.spec.active_deadline_seconds,
            ttl=record.spec.ttl_seconds_after_finished,
        )

    def _parse(self, record: JobStatus, known: JobSpec | None = None) -> None:
        """Parse the present spec of a job, or set the reason why it cannot run here. `known`: the
        spec of a job of a run, which contains more than its manifest.
        """
        record.generation = _generation(record.job)
        if not record.state.replicas:
            record.size = record.job["spec"].get("elasticReplicas")
        try:
            record.spec = spec_of(record.job)
        except HeadwayError as error:
            record.rejected = "Invalid", f"{error.where}: {error.message}"
            return
        if why := _refused(record.spec):
            record.rejected = "Invalid", why
            return
        core = record.spec.to_core(kind=" ".join(record.spec.tasks[0].command))
        core = known or self.sizes.applied(record, core)
        reason, why = not_movable(record.spec, can_ask=not self._cluster.run)
        before = record.conditions.get("Movable") or {}
        record.exclusive = before.get("reason") == EXCLUSIVE
        if reason or not record.exclusive:
            record.set_condition("Movable", not reason, reason or "Movable", why)
        if reason:
            core = replace(core, checkpoint=Mode.NONE)
        try:
            for pod in record.sample_pods().values():
                filters.understand(pod)
            record.core = self._capacity.fitted(core, record)
        except MALFORMED as error:
            why = f"podTemplate is not a valid pod: {type(error).__name__} {error}"
            record.rejected = "Invalid", why

    @staticmethod
    def _rejection(record: JobStatus) -> list[events.Event]:
        if not record.rejected[0] or record.settled:
            return []
        return [events.JobRejected(record.id, record.rejected[1])]

    def _seen(self, job: Plain) -> list[events.Event]:
        record = self._add(job)
        if record is None:
            return []
        state = record.state if record.admitted else None
        seen = events.JobSeen(new_job(self._jobs[record.id]), state)
        return [seen, *self._about(record)]

    def _about(self, record: JobStatus) -> list[events.Event]:
        """Return events for suspension, rejection and deletion of a job."""
        wanted, found = bool(record.job["spec"].get("suspend")), list[events.Event]()
        if wanted != record.suspended:
            record.suspended = wanted
            found.append(events.JobSuspended(record.id, wanted))
        return [*found, *self._rejection(record), *self._leaving(record)]

    @staticmethod
    def _leaving(record: JobStatus) -> list[events.Event]:
        if record.leaving or not record.job["metadata"].get("deletionTimestamp"):
            return []
        record.leaving = True
        return [events.JobDeleted(record.id, DELETED)]

    def admit(self, command: Admit) -> Sequence[events.Event]:
        """Create a job of a run in the cluster; write the first status of any job."""
        record = self.records.get(command.job)
        if record is None and self._cluster.run:
            there = self._cluster.jobs.get((self._cluster.namespace, command.job))
            if there is None:
                self._create(command)
                return ()
            record = self._add(there)
        return self._accept(command, record)

    def _create(self, command: Admit) -> None:
        manifest = self._jobs[command.job].manifest or TrainingJobSpec()
        body = {
            **KIND,
            "metadata": {
                "name": command.job,
                "namespace": self._cluster.namespace,
                "labels": {RUN: self._cluster.run},
            },
            "spec": written(manifest),
        }

        def declined(error: BackendError) -> list[events.Event]:
            why = f"the API server declined it: {error.message}"
            return [events.CommandFailed(command, why, isinstance(error, Declined))]

        self._cluster.worker_of(self._cluster.namespace).do(
            partial(_create, self._cluster.api, body),
            lambda created: self._accept(command, self._add(created)),
            declined,
        )

    def _accept(self, command: Admit, record: JobStatus | None) -> Sequence[events.Event]:
        if record is None:
            return [events.Admitted(command.job)]
        if record.rejected[0]:
            return self._rejection(record)
        names = pod_claims.mounted(record.sample_pods().values())
        if names and not record.enqueued:
            record.enqueued = now()

            def looked(modes: pod_claims.Modes) -> Sequence[events.Event]:
                claim = pod_claims.exclusive(modes)
                return [*self._exclusive(record, claim), *self._accept(command, record)]

            call = partial(pod_claims.read, self._cluster.api, record.namespace, names)
            self._cluster.worker_of(record.namespace).do(call, looked, lambda _: looked({}))
            return ()
        record.enqueued = record.enqueued or now()
        record.set_condition("Accepted", True, "Accepted", "the job can run on this cluster")

        def admitted() -> list[events.Event]:
            record.admitted = self._capacity.dirty = True
            return [events.JobChanged(record.id, record.core), events.Admitted(record.id)]

        def failed(error: BackendError) -> list[events.Event]:
            return [events.CommandFailed(command, error.message)]

        self._writer.write(record, admitted, failed)
        return ()

    @staticmethod
    def _exclusive(record: JobStatus, claim: str) -> list[events.Event]:
        """Restrict a job with a volume that one pod at a time can mount: the pod on the target node
        could be bound only after the pod before it has ended, so that the job cannot be moved.
        """
        if not claim:
            return []
        why = f"claim {claim} is {EXCLUSIVE}: its pods cannot wait on another node for each other"
        record.set_condition("Movable", False, EXCLUSIVE, why)
        record.exclusive = True
        return [events.JobRestricted(record.id, record.capabilities)]

    def delete(self, command: DeleteJob) -> Sequence[events.Event]:
        """Delete a job by uid, so that no other job of the same name is deleted. The watch reports
        `JobDeleted`.
        """
        record = self.records.get(command.job)
        if record is None:
            return [events.JobDeleted(command.job, DELETED)]
        self._cluster.worker_of(record.namespace).do(
            partial(self._cluster.api.delete, record.path, uid=record.uid),
            failed=lambda error: [events.CommandFailed(command, error.message)],
        )
        return ()

    def changed(self, before: Plain | None, new: Plain | None) -> list[events.Event]:
        job = new or before or {}
        record = self.records.get(self._cluster.job_id(*key_of(job)))
        if record is None:
            return [] if new is None or before is not None or self._cluster.run else self._seen(new)
        if job["metadata"]["uid"] != record.uid:
            record.successor = new
            return []
        if new is None:
            record.gone = True
            forgotten = self._forget(record) if record.settled else []
            return [events.JobDeleted(record.id, DELETED), *forgotten]
        if _generation(new) != record.generation:
            self._capacity.dirty = True
        scaled = self.sizes.changed(record, new)
        record.job = new
        record.note_version(new)
        self._writer.check_leader(new)
        if record.admitted:
            self._writer.write_again(record)
        return [*self._about(record), *scaled]

    def settle(self, record: JobStatus) -> list[events.Event]:
        """Note that the end of a job is persisted."""
        record.settled = True
        return self._forget(record) if record.gone else []

    def _forget(self, record: JobStatus) -> list[events.Event]:
        """Drop the record of a job. A job of the same name, which waited for this, is added."""
        del self.records[record.id]
        if not self._cluster.run:
            del self._jobs[record.id]
        if record.successor is None or self._cluster.run:
            return []
        return self._seen(record.successor)

    def fit(self) -> list[events.Event]:
        """Return changed specs of jobs without replicas, and changed usable nodes of all jobs."""
        found: list[events.Event] = []
        for record in self.records.values():
            key = self._capacity.generation, _generation(record.job)
            if (record.waiting or record.state.replicas) and record.fitted != key:
                record.fitted = key
                found += self._fit(record)
        return found

    def _fit(self, record: JobStatus) -> list[events.Event]:
        before = record.core
        if record.waiting and _generation(record.job) != record.generation:
            self._respecify(record)
        else:
            record.core = self._capacity.fitted(record.core, record)
        if record.rejected[0]:
            return self._rejection(record)
        if record.state.phase is Phase.PENDING:
            why = self._capacity.unschedulable(record.sample_pods().values())
            self._writer.unschedulable(record, why)
        return [] if record.core == before else [events.JobChanged(record.id, record.core)]

    def _respecify(self, record: JobStatus) -> None:
        """Parse a changed manifest. An invalid one is ignored: the job keeps the spec before."""
        spec, core = record.spec, record.core
        self._parse(record)
        if record.rejected[0] == "Invalid":
            record.spec, record.core, record.rejected = spec, core, ("", "")

    @staticmethod
    def refusal(record: JobStatus, where: Sequence[ReplicaId]) -> str:
        """Refuse to start a part of a gang; "": not refused. A running gang may be scaled."""
        if record.state.replicas:
            return ""
        named = [replica.task for replica in where]
        short = next((t.name for t in record.core.tasks if named.count(t.name) < t.least), "")
        return f"a gang is started whole: too few of {short}" if short else ""


def _refused(spec: TrainingJobSpec) -> str:
    """Return why a spec cannot run on a cluster; "": it can. The API server checks most of this by
    the schema, if the schema is of this version.
    """
    count = sum(task.most for task in spec.tasks)
    if count > MOST_ON_A_CLUSTER:
        return f"spec.tasks: {count} replicas; at most {MOST_ON_A_CLUSTER} on a cluster"
    for i, task in enumerate(spec.tasks):
        template = task.pod_template
        size = 0 if template is None else len(template.model_dump_json())
        if size > LARGEST_TEMPLATE:
            return f"spec.tasks[{i}].podTemplate: {size} bytes; at most {LARGEST_TEMPLATE}"
        if lacks_torchrun(task):
            return (
                f"spec.tasks[{i}].command: it does not start torchrun, as elastic: torchrun needs"
            )
    return ""


def _generation(job: Plain) -> int:
    return int(job["metadata"].get("generation", 0))


def _create(api: Api, body: Plain) -> Plain:
    """Create a TrainingJob. If it exists already and belongs to this run, the answer to an earlier
    call was lost.
    """
    about = body["metadata"]
    path = jobs_path(about["namespace"])
    try:
        return api.create(path, body)
    except Declined as error:
        if error.status != HTTPStatus.CONFLICT:
            raise
        there = api.get(f"{path}/{about['name']}")
        labels = there["metadata"].get("labels") or {}
        if labels.get(RUN) != about["labels"][RUN]:
            raise
        return there
