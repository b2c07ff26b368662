"""Foreign pods: pods of other controllers with `schedulerName: headway` (Jobs, Kubeflow, ...).

Pods of a group (by label) wait for each other and are bound together. A complete group is a foreign
job for the controller, with one task for each pod. What the pods run, and what their end means, is
up to their own controllers: here they are bound, counted, and released.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf

from headway.backend.clock import Clock
from headway.backend.kubernetes.client.api import Plain, pod_path
from headway.backend.kubernetes.client.cache import ClusterCache
from headway.backend.kubernetes.client.informer import Key, key_of
from headway.backend.kubernetes.placement import feasibility, filters
from headway.backend.kubernetes.placement.node_info import OVER
from headway.backend.kubernetes.placement.quantities import asked, resources
from headway.backend.kubernetes.platform import pod_status
from headway.backend.kubernetes.platform.capacity import Capacity
from headway.backend.kubernetes.platform.pod_builder import GANG, REPLICA, SCHEDULER
from headway.backend.kubernetes.platform.pod_runner import bind
from headway.backend.kubernetes.platform.status_writer import StatusWriter
from headway.controller import events
from headway.controller.commands import Persist, Release, Start
from headway.core.model.job import JobSpec, Task
from headway.core.model.units import JobId, ReplicaId, Seconds
from headway.errors import BackendError

SETTLED: Seconds = 1.0
"""A group that does not state its size is complete when no pod has joined for this time."""
AGAIN: Seconds = 1.0
LONGEST: Seconds = 60.0
"""Back-off between two attempts to bind a group: first, and longest."""
SIZE = f"{GANG}-size"
GROUPS = (
    GANG, "training.kubeflow.org/job-name", "jobset.sigs.k8s.io/jobset-name",
    "batch.kubernetes.io/job-name", "job-name",
)  # fmt: skip
"""Labels by which pods form a group; the first that a pod has counts."""


@dataclass(slots=True)
class Group:
    pods: dict[str, Plain] = field(default_factory=dict)
    """By name; none of them is bound."""
    joined: Seconds = 0.0
    """When the last of them came."""
    late: bool = False
    """The other pods of the group are bound already: it waits for no others."""
    since: Seconds = inf
    """When it first joined the queue."""
    tries: int = 0
    """Bindings that failed."""
    rests: Seconds = 0.0
    """Not bound again before this time."""
    failed: dict[Key, Plain] = field(default_factory=dict)
    """The pods of the last binding that failed: some may be bound."""

    @property
    def size(self) -> int:
        """How many pods it states to have; 0: it does not."""
        said = [str((p["metadata"].get("labels") or {}).get(SIZE, "")) for p in self.pods.values()]
        return max((int(s) for s in said if s.isdigit()), default=0)

    def due(self) -> Seconds:
        whole = self.joined + SETTLED
        if self.size and not self.late:
            whole = 0.0 if len(self.pods) >= self.size else inf
        return max(whole, self.rests)

    def spec(self) -> JobSpec:
        """Each pod is a task: they may differ."""
        tasks = (Task(name=name, request=resources(asked(p))) for name, p in self.pods.items())
        return JobSpec(tasks=tuple(tasks), kind="pods", backoff_limit=0)


class ForeignPods:
    def __init__(
        self, cluster: ClusterCache, clock: Clock, capacity: Capacity, writer: StatusWriter
    ) -> None:
        self._cluster, self._clock = cluster, clock
        self._capacity, self._writer = capacity, writer
        self.groups: dict[JobId, Group] = {}
        self.jobs: dict[JobId, JobSpec] = {}
        """Groups that the controller knows, with the spec that was last reported."""
        self.started: dict[JobId, Group] = {}
        """Those of them that it has started."""
        self.placed: dict[Key, tuple[ReplicaId, int]] = {}
        self._told: dict[Key, str] = {}
        self._in: dict[Key, JobId] = {}

    def wants(self, pod: Plain) -> bool:
        spec, about = pod["spec"], pod["metadata"]
        return (
            not self._cluster.run
            and spec.get("schedulerName") == SCHEDULER
            and REPLICA not in (about.get("labels") or {})
            and (not self._cluster.namespace or about["namespace"] == self._cluster.namespace)
        )

    def is_replica(self, pod: Plain) -> bool:
        return key_of(pod) in self.placed

    # -- groups ------------------------------------------------------------------------------------

    def changed(self, pod: Plain, *, there: bool) -> list[events.Event]:
        if key_of(pod) in self.placed:
            return self._placed_changed(pod, there=there)
        key, own = key_of(pod), pod["metadata"]["name"]
        name = self._in.get(key) or self._group_of(pod)
        gone = pod["metadata"].get("deletionTimestamp") or pod["status"].get("phase") in OVER
        waits = there and not gone and not pod["spec"].get("nodeName")
        group = self.groups.get(name)
        if waits and not pod["spec"].get("schedulingGates"):
            group = self.groups.setdefault(name, Group(late=name.endswith("+")))
            if own not in group.pods:
                group.joined = self._clock()
            group.pods[own], self._in[key] = pod, name
        elif group is not None and group.pods.pop(own, None) is not None:
            self._told.pop(key, None)
            del self._in[key]
            if not group.pods:
                del self.groups[name]
        return self._renew(name)

    def _group_of(self, pod: Plain) -> JobId:
        """A pod that comes when the others of its group are bound is a group of its own: a pod
        that was created again must not wait for the others to end.
        """
        about = pod["metadata"]
        labels = about.get("labels") or {}
        name = next((labels[key] for key in GROUPS if key in labels), about["name"])
        found = JobId(f"{about['namespace']}/{name}.pods")
        while found in self.started and found not in self.groups:
            found = JobId(f"{found}+")
        return found

    def due(self) -> Seconds:
        return min((g.due() for n, g in self.groups.items() if n not in self.jobs), default=inf)

    def complete(self) -> list[events.Event]:
        """Groups that are complete join the queue."""
        now, found = self._clock(), list[events.Event]()
        for name, group in list(self.groups.items()):
            if name in self.jobs or max(group.due() if not group.failed else 0, group.rests) > now:
                continue
            if group.failed and not self._sorted_out(group):
                continue
            if group.due() > now:
                continue
            group.since = min(now, group.since)
            spec = self.jobs[name] = self._fitted(group.spec(), group)
            new = events.NewJob(id=name, spec=spec, submitted_at=group.since, foreign=True)
            found.append(events.JobSeen(new))
        return found

    def _sorted_out(self, group: Group) -> bool:
        """Pods of a group that was bound in part are deleted, for nothing else unbinds them; their
        controllers create new ones. Repeated until the API server has done it.
        """
        bound = []
        for key, pod in group.failed.items():
            now = self._cluster.pods.get(key)
            same = now is not None and now["metadata"]["uid"] == pod["metadata"]["uid"]
            if same and now is not None and now["spec"].get("nodeName"):
                bound.append(now)
        if not bound:
            group.failed = {}
            return True
        for pod in bound:
            path, uid = pod_path(*key_of(pod)), pod["metadata"]["uid"]
            self._cluster.worker.do(partial(self._cluster.api.delete, path, grace=0, uid=uid))
        group.rests = self._clock() + AGAIN
        return False

    def _renew(self, name: JobId) -> list[events.Event]:
        """A group that waits has changed."""
        group = self.groups.get(name)
        if name not in self.jobs or name in self.started:
            return []
        if group is None:
            return [events.JobDeleted(name, "its pods were deleted")]
        if [t.name for t in group.spec().tasks] == [t.name for t in self.jobs[name].tasks]:
            return []
        self.jobs[name] = self._fitted(group.spec(), group)
        return [events.JobChanged(name, self.jobs[name])]

    # -- which nodes they may use ------------------------------------------------------------------

    def fit(self) -> list[events.Event]:
        found: list[events.Event] = []
        for name, before in self.jobs.items():
            group = self.groups.get(name)
            if group is not None and name not in self.started:
                self.jobs[name] = self._fitted(before, group)
                if self.jobs[name] != before:
                    found.append(events.JobChanged(name, self.jobs[name]))
        return found

    def _fitted(self, spec: JobSpec, group: Group) -> JobSpec:
        """If no node fits a pod, the pod itself says so."""
        tasks = []
        for task in spec.tasks:
            pod = group.pods[task.name]
            bad = filters.unsupported(pod)
            fitted = feasibility.fitting(self._cluster, task, pod)
            tasks.append(replace(task, nodes=()) if bad else fitted)
            why = f"{bad} is not supported" if bad else self._capacity.unschedulable([pod])
            if why and self._told.get(key_of(pod)) != why:
                self._told[key_of(pod)] = why
                self._writer.pod_unschedulable(pod, why)
        return replace(spec, tasks=tuple(tasks))

    def refusal(self, job: JobId, where: Mapping[str, str]) -> str:
        group = self.groups.get(job)
        if group is None:
            return "its pods do not exist"
        nodes = {ReplicaId(name).task: node for name, node in where.items()}
        short = feasibility.partial(self.jobs[job].tasks, where)
        return short or feasibility.cannot(self._cluster, group.pods, nodes)

    # -- commands ----------------------------------------------------------------------------------

    def start(self, command: Start) -> list[events.Event]:
        group = self.groups.get(command.job)
        if group is None or any(a.replica.task not in group.pods for a in command.replicas):
            return [events.CommandFailed(command, "its pods do not exist", permanent=True)]
        del self.groups[command.job]
        self.started[command.job] = group
        nodes = {a.replica.task: str(a.node) for a in command.replicas}
        for a in command.replicas:
            pod = group.pods[a.replica.task]
            self.placed[key_of(pod)] = a.replica, a.attempt
            self._cluster.assume(pod, nodes[a.replica.task])
            del self._in[key_of(pod)]
            self._told.pop(key_of(pod), None)
        api, around = self._cluster.api, self._cluster.around
        self._cluster.worker.do(
            partial(bind, api, dict(group.pods), nodes, around),
            failed=partial(self._not_bound, command, group),
        )
        return []

    def _not_bound(self, command: Start, group: Group, error: BackendError) -> list[events.Event]:
        """Its pods wait again, as a new job, after a back-off. The watch says which are bound."""
        pods, group.pods = list(group.pods.values()), {}
        there = [now for p in pods if (now := self._cluster.pods.get(key_of(p))) is not None]
        if there and all(p["spec"].get("nodeName") for p in there):
            return []  # only the answer was lost
        group.tries += 1
        group.rests = self._clock() + min(LONGEST, AGAIN * 2.0 ** min(9, group.tries - 1))
        group.failed = {key_of(p): p for p in pods}
        self.started.pop(command.job, None)
        self.groups[command.job] = group
        found: list[events.Event] = []
        for pod in pods:
            self._cluster.assume_not(key_of(pod))
            self.placed.pop(key_of(pod), None)
        failed = events.CommandFailed(
            command, f"could not be bound: {error.message}", permanent=True
        )
        for pod in there:
            found += self.changed(pod, there=True)
        if not group.pods:
            self.groups.pop(command.job, None)
        return [failed, *found]

    def persist(self, command: Persist) -> list[events.Event]:
        """Nothing is stored of them. What has ended is forgotten."""
        if command.state.phase.ended:
            self.jobs.pop(command.job, None)
            self.started.pop(command.job, None)
        return [events.Persisted(command.job, command.version)]

    def release(self, command: Release) -> list[events.Event]:
        for key in [k for k, (name, _) in self.placed.items() if name == command.replica]:
            del self.placed[key]
            self._cluster.assume_not(key)
        return [events.ReplicaExited(replica=command.replica, attempt=command.attempt, code=0)]

    # -- pods that are placed ----------------------------------------------------------------------

    def _placed_changed(self, pod: Plain, *, there: bool) -> list[events.Event]:
        replica, attempt = self.placed[key_of(pod)]
        phase = pod["status"].get("phase")
        if there and phase not in OVER:
            return [events.ReplicaRunning(replica, attempt)] if phase == "Running" else []
        del self.placed[key_of(pod)]
        self._cluster.assume_not(key_of(pod))
        if phase == "Succeeded":
            return [events.ReplicaExited(replica=replica, attempt=attempt, code=0)]
        reason = pod_status.failure(pod) if phase == "Failed" else "its pod was deleted"
        return [events.ReplicaExited(replica=replica, attempt=attempt, code=1, reason=reason)]
