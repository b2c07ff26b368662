"""Adopted pods: pods of other controllers, which Headway observes and whose shares it changes.

A pod is adopted while it runs and has the label, or the Job that controls it has the label. Each
adopted pod is a job of one replica. Its own controller decides what happens when it ends.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from headway.backend.clock import Clock
from headway.backend.kubernetes.client.api import Plain, pod_path
from headway.backend.kubernetes.client.cache import ADOPT, ClusterCache, owner_uid
from headway.backend.kubernetes.client.informer import Key, key_of
from headway.backend.kubernetes.placement.node_info import OVER, node_of
from headway.backend.kubernetes.placement.quantities import asked, resources
from headway.backend.kubernetes.platform import cleanup, pod_cpu
from headway.backend.kubernetes.platform.other_managers import controller_of, manager_of, marked
from headway.backend.kubernetes.platform.shares import Shares
from headway.backend.kubernetes.platform.status_writer import StatusWriter
from headway.backend.new_job import new_job
from headway.backend.worker import Worker
from headway.controller import events
from headway.controller.commands import Release, Start
from headway.controller.records import ADOPTED
from headway.core.model.capabilities import Capabilities
from headway.core.model.job import JobSpec, Task
from headway.core.model.units import JobId, NodeId, ReplicaId, Seconds
from headway.errors import BackendError
from headway.spec.manifest import GROUP
from headway.spec.runnable import RunnableJob

NOT_ADOPTED = f"{GROUP}/not-adopted"
"""Annotation of a pod that has the label but is not adopted: the reason."""
ATTEMPT = 1
"""An adopted pod is never started again."""
AGAIN: Seconds = 10.0
"""Interval after which a pod is checked again if its owners could not be read."""

Ended = Callable[[ReplicaId, int, Plain | None], events.Event]


@dataclass(slots=True, eq=False)
class AdoptedPod:
    id: JobId
    pod: Plain
    """As last seen."""
    reference: Plain
    """The object with the label: the pod, or its Job."""
    spec: JobSpec
    resizable: bool = True
    leaving: bool = False
    """Whether it is being released, or has ended."""

    @property
    def uid(self) -> str:
        return str(self.pod["metadata"]["uid"])

    @property
    def replica(self) -> ReplicaId:
        return ReplicaId.of(self.id, Task().name, 0)

    @property
    def capabilities(self) -> Capabilities:
        return replace(ADOPTED, shares=self.resizable)

    def holds(self, replica: ReplicaId, attempt: int) -> bool:
        return (replica, attempt) == (self.replica, ATTEMPT) and not self.leaving


class Adoption:
    def __init__(
        self,
        cluster: ClusterCache,
        jobs: dict[JobId, RunnableJob],
        clock: Clock,
        writer: StatusWriter,
        shares: Shares,
        ended: Ended,
    ) -> None:
        """`ended`: returns the exit of a pod that no longer runs."""
        self._cluster, self._jobs, self._clock = cluster, jobs, clock
        self._writer, self._shares, self._ended = writer, shares, ended
        self._pods: dict[JobId, AdoptedPod] = {}
        self._considered: set[str] = set()
        """Uids of pods with the label that were adopted or refused, or are being checked."""
        self._again: dict[Key, Seconds] = {}
        """Times at which pods are checked again."""
        self.on_change: Callable[[Plain], list[events.Event]] = lambda pod: []
        """Called when a pod is adopted, and when its adoption ends."""

    def of(self, pod: Plain) -> AdoptedPod | None:
        """Return the record of a pod; None: it is not adopted."""
        found = self._pods.get(self._job_id(pod))
        return found if found is not None and found.uid == pod["metadata"]["uid"] else None

    def key(self, job: JobId) -> Key | None:
        """Return the key of the pod of a job; None: it is not an adopted pod."""
        return key_of(self._pods[job].pod) if job in self._pods else None

    def _job_id(self, pod: Plain) -> JobId:
        """Return the id of the job of a pod. No TrainingJob can have it, because of the slash."""
        namespace, name = key_of(pod)
        return self._cluster.job_id(namespace, f"pod/{name}")

    def load(self) -> list[tuple[AdoptedPod, ReplicaId, int, Plain]]:
        """Adopt the pods that have the label. Restore the declared CPU of pods that an earlier
        leader had adopted and that lost the label while no operator ran.
        """
        api = self._cluster.api
        for pod in () if self._cluster.run else self._cluster.pods.values():
            try:
                adopted = self._wanted(pod) and self._decide(pod, manager_of(api, pod))
            except BackendError as error:
                self._look_again(pod, error)
                continue
            if not (adopted or owner_uid(pod) or _is_over(pod)) and pod_cpu.is_noted(pod):
                node = self._cluster.node(node_of(pod))
                self._worker(pod).do(partial(cleanup.restore, api, pod, node))
        return [(r, r.replica, ATTEMPT, r.pod) for r in self._pods.values()]

    # -- what happens in the cluster -------------------------------------------------------------

    def pod_changed(self, before: Plain | None, new: Plain | None) -> list[events.Event]:
        pod = new or before or {}
        record = self.of(pod)
        if record is None:
            return self._consider(pod)
        record.pod = pod
        if new is None or _is_over(new):
            record.leaving = True
            ended = self._ended(record.replica, ATTEMPT, pod)
            return [*self._shares.left(pod), ended]
        shared = self._shares.changed(record, record.replica, ATTEMPT, pod)
        return [*shared, *self._leave(record)]

    def job_changed(self, before: Plain | None, new: Plain | None) -> list[events.Event]:
        """Adopt or release the pods of a Job that got or lost the label."""
        if before is not None and new is not None:
            return []
        uid = (new or before or {})["metadata"]["uid"]
        found: list[events.Event] = []
        for pod in [p for p in self._cluster.pods.values() if controller_of(p).get("uid") == uid]:
            record = self.of(pod)
            found += self._consider(pod) if record is None else self._leave(record)
        return found

    def advance(self) -> list[events.Event]:
        """Check pods again if their owners could not be read before."""
        due = [key for key, at in self._again.items() if at <= self._clock()]
        for key in due:
            del self._again[key]
        pods = filter(None, map(self._cluster.pods.get, due))
        return [event for pod in pods for event in self._consider(pod)]

    def _labelled(self, pod: Plain) -> Plain | None:
        """Return a reference to the object with the label: the Job of the pod, or the pod; None:
        neither has it.
        """
        owner, labels = controller_of(pod), pod["metadata"].get("labels") or {}
        job = self._cluster.adopting.get((pod["metadata"]["namespace"], owner.get("name", "")))
        if job is not None and job["metadata"]["uid"] == owner["uid"]:
            return _reference(job, "batch/v1", "Job")
        return _reference(pod, "v1", "Pod") if labels.get(ADOPT) == "true" else None

    def _wanted(self, pod: Plain) -> bool:
        """Whether a pod runs, has the label, and is no pod of a TrainingJob."""
        runs = pod["status"].get("phase") == "Running" and node_of(pod)
        leaves = pod["metadata"].get("deletionTimestamp")
        return bool(runs and not leaves and not owner_uid(pod) and self._labelled(pod))

    def _consider(self, pod: Plain) -> list[events.Event]:
        """Adopt a pod that is not adopted yet, if nothing else manages it."""
        uid = pod["metadata"]["uid"]
        if self._cluster.run or not self._wanted(pod):
            self._considered.discard(uid)
            if NOT_ADOPTED in (pod["metadata"].get("annotations") or {}):
                self._annotate(pod, None)
            return []
        if uid in self._considered or self._job_id(pod) in self._pods:
            return []
        self._considered.add(uid)

        def looked(why: str) -> list[events.Event]:
            now = self._cluster.pods.get(key_of(pod))
            if now is None or now["metadata"]["uid"] != uid or not self._wanted(now):
                return []
            record = self._decide(now, why)
            if record is None:
                return []
            return [events.JobSeen(new_job(self._jobs[record.id])), *self.on_change(now)]

        failed = partial(self._look_again, pod)
        self._worker(pod).do(partial(manager_of, self._cluster.api, pod), looked, failed)
        return []

    def _look_again(self, pod: Plain, error: BackendError) -> list[events.Event]:
        """Check a pod again later, because its owners could not be read."""
        self._considered.discard(pod["metadata"]["uid"])
        self._again[key_of(pod)] = self._clock() + AGAIN
        self._writer.log_once(error)
        return []

    def _decide(self, pod: Plain, why: str) -> AdoptedPod | None:
        """Adopt a pod. `why`: something else manages it, so that it is refused."""
        spec = _spec(pod_cpu.checked(pod, self._cluster.node(node_of(pod))))
        record = AdoptedPod(self._job_id(pod), pod, self._labelled(pod) or {}, spec)
        self._considered.add(record.uid)
        name = pod["metadata"]["name"]
        if why:
            self._writer.event(record, "NotAdopted", f"pod {name}: {why}", warning=True)
            self._annotate(pod, why)
            return None
        self._pods[record.id] = record
        self._jobs[record.id] = RunnableJob(
            id=record.id,
            at=self._clock(),
            spec=spec,
            commands={},
            adopted=record.uid,
            node=NodeId(node_of(pod)),
        )
        self._writer.event(record, "Adopted", f"pod {name}: shares only", warning=False)
        return record

    def _leave(self, record: AdoptedPod) -> list[events.Event]:
        """End the adoption of a pod that lost its label, or that something else manages now. The
        controller answers by `Release`.
        """
        if record.leaving or (self._wanted(record.pod) and not marked(record.pod)):
            return []
        record.leaving = True
        return [events.JobDeleted(record.id, "its label was removed")]

    def _annotate(self, pod: Plain, why: str | None) -> None:
        body = {"metadata": {"uid": pod["metadata"]["uid"], "annotations": {NOT_ADOPTED: why}}}
        self._worker(pod).do(partial(self._cluster.api.patch, pod_path(*key_of(pod)), body))

    def _worker(self, pod: Plain) -> Worker:
        return self._cluster.worker_of(pod["metadata"]["namespace"])

    # -- commands --------------------------------------------------------------------------------

    def start(self, command: Start) -> list[events.Event]:
        """Report an adopted pod, which runs already, as started."""
        record = self._pods[command.job]
        key = record.replica, ATTEMPT
        known = events.ShareInEffect(*key, *self._shares.share(*key))  # by an earlier leader
        shared = self._shares.changed(record, *key, record.pod)
        return [known, *shared, events.ReplicaRunning(*key)]

    def release(self, command: Release) -> list[events.Event]:
        return self._shares.release(command.replica, command.attempt)

    def settle(self, job: JobId) -> list[events.Event]:
        """Forget a job whose end is persisted. Its pod, or a new pod of the same name, may have the
        label again.
        """
        record = self._pods.pop(job)
        del self._jobs[job]
        self._shares.forget(job)
        self._considered.discard(record.uid)
        now = self._cluster.pods.get(key_of(record.pod))
        again = self._consider(now) if now is not None else []
        return [*self.on_change(record.pod), *again]


def _spec(pod: Plain) -> JobSpec:
    """Return the job that a pod is, with the CPU that its owner has declared."""
    own = pod_cpu.declared(pod)
    limit = None if own.limit is None else own.limit / 1000
    task = Task(request=resources(asked(pod_cpu.as_declared(pod))), limit=limit)
    return JobSpec(tasks=(task,), kind=str(pod["spec"]["containers"][0].get("image", "")))


def _reference(each: Plain, version: str, kind: str) -> Plain:
    about = {name: each["metadata"][name] for name in ("namespace", "name", "uid")}
    return {"apiVersion": version, "kind": kind, **about}


def _is_over(pod: Plain) -> bool:
    return pod["status"].get("phase") in OVER
