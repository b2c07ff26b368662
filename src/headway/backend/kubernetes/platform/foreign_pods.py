"""Pods of others that name us as their scheduler: plain Jobs, Kubeflow's, whoever asks.

They come one by one; those of a group (by label) wait for each other and are bound together, or not
at all. What they run, how often, and whether they succeed is for their own controllers to say: we
bind them, keep their room, and let them go.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from headway.backend.kubernetes.client.api import Api, Plain
from headway.backend.kubernetes.client.informer import Key, key_of
from headway.backend.kubernetes.placement import feasibility, filters, gang_binder
from headway.backend.kubernetes.placement.node_info import OVER, node_of
from headway.backend.kubernetes.placement.quantities import asked, resources
from headway.backend.kubernetes.platform.pod_builder import SCHEDULER
from headway.backend.kubernetes.platform.pod_status import LABEL, REPLICA
from headway.backend.state import Work
from headway.core.model.job import JobSpec, Phase, Task
from headway.core.model.snapshot import Trigger
from headway.core.model.units import JobId, ReplicaId, Seconds
from headway.errors import BackendError, Declined
from headway.spec.runnable import LiveJob

if TYPE_CHECKING:
    from headway.backend.kubernetes.platform.job_status import PodMember
    from headway.backend.kubernetes.platform.platform import KubernetesBackend

SETTLED: Seconds = 1.0
"""A group that does not say how large it is has come whole when nobody has joined for so long."""
AGAIN: Seconds = 1.0
LONGEST: Seconds = 60.0
"""Between two tries to bind a group: at first, and at most."""
MISSING = 404
SIZE = f"{LABEL}/gang-size"
GROUPS = (
    f"{LABEL}/gang", "training.kubeflow.org/job-name", "jobset.sigs.k8s.io/jobset-name",
    "batch.kubernetes.io/job-name", "job-name",
)  # fmt: skip
"""Labels by which pods belong together; the first that a pod has counts."""


@dataclass(slots=True)
class Group:
    pods: dict[str, Plain] = field(default_factory=dict)
    """By name; none of them is bound."""
    joined: Seconds = 0.0
    """When the last of them came."""
    late: bool = False
    """Those before them have been placed already: they wait for nobody."""
    since: Seconds = inf
    """When it first joined the queue, if it was to be bound before."""
    tries: int = 0
    """How often that went wrong."""
    rests: Seconds = 0.0
    """Until then it is not tried again."""

    @property
    def size(self) -> int:
        """How many it says that it has; 0: it does not say."""
        said = [str((p["metadata"].get("labels") or {}).get(SIZE, "")) for p in self.pods.values()]
        return max((int(s) for s in said if s.isdigit()), default=0)

    def due(self) -> Seconds:
        whole = self.joined + SETTLED
        if self.size and not self.late:
            whole = 0.0 if len(self.pods) >= self.size else inf
        return max(whole, self.rests)


class ForeignPods:
    def __init__(self, backend: "KubernetesBackend") -> None:
        self.backend = backend
        self.groups: dict[JobId, Group] = {}
        self.placed: dict[Key, ReplicaId] = {}
        self._told: dict[Key, str] = {}
        self._in: dict[Key, JobId] = {}
        self._again: list[Callable[[], None]] = []
        """Calls that the server did not answer."""
        self._again_at: Seconds = 0.0

    def wants(self, pod: Plain) -> bool:
        spec, about = pod["spec"], pod["metadata"]
        return (
            not self.backend.run
            and spec.get("schedulerName") == SCHEDULER
            and REPLICA not in (about.get("labels") or {})
            and (not self.backend.namespace or about["namespace"] == self.backend.namespace)
        )

    def member_of(self, pod: Plain) -> "PodMember | None":
        return self.backend.members.get(self.placed.get(key_of(pod), ReplicaId("")))

    def changed(self, pod: Plain, *, there: bool) -> None:
        """One that is not placed yet came, changed or went."""
        key, own = key_of(pod), pod["metadata"]["name"]
        name = self._in.get(key) or self._group_of(pod)
        gone = pod["metadata"].get("deletionTimestamp") or pod["status"].get("phase") in OVER
        waits = there and not gone and not pod["spec"].get("nodeName")
        group = self.groups.get(name)
        if waits and not pod["spec"].get("schedulingGates"):
            group = self.groups.setdefault(name, Group(late=name.endswith("+")))
            if own not in group.pods:
                group.joined = self.backend.clock()
            group.pods[own], self._in[key] = pod, name
        elif group is not None and group.pods.pop(own, None) is not None:
            self._told.pop(key, None)
            del self._in[key]
            if not group.pods:
                del self.groups[name]
        self._renew(name)

    def _group_of(self, pod: Plain) -> JobId:
        """Whoever comes when the rest of a group has been placed is one for itself: a pod that was
        made again must not wait for the others to end. But if the rest waits again, it joins them.
        """
        about = pod["metadata"]
        labels = about.get("labels") or {}
        name = next((labels[key] for key in GROUPS if key in labels), about["name"])
        found = JobId(f"{about['namespace']}/{name}.pods")
        works = self.backend.works
        while found in works and works[found].phase is not Phase.PENDING:
            if found in self.groups:
                break
            found = JobId(f"{found}+")
        return found

    def due(self) -> Seconds:
        return min(
            (g.due() for n, g in self.groups.items() if n not in self.backend.works), default=inf
        )

    def on_time(self) -> None:
        """Groups that are whole join the queue."""
        now = self.backend.clock()
        if self._again and now >= self._again_at:
            self._again_at = now + AGAIN
            again, self._again = self._again, []
            for call in again:
                call()
        for name, group in list(self.groups.items()):
            if name not in self.backend.works and group.due() <= now:
                made = LiveJob(id=name, at=min(now, group.since), spec=_spec(group), commands={})
                folder = self.backend.folder / "jobs" / name
                self.backend.works[name] = work = Work(made, folder)
                self.backend.set_phase(work, Phase.PENDING)
                self.backend.look_again()
                self.backend.happened(Trigger.ARRIVED)

    def _renew(self, name: JobId) -> None:
        """A group that waits has changed."""
        work, group = self.backend.works.get(name), self.groups.get(name)
        if work is None or work.phase is not Phase.PENDING:
            return
        if group is None:  # they have all gone
            work.then = Phase.CANCELLED
            work.reason = "its pods were deleted"
            self.backend.leave(work)
            return
        spec = _spec(group)
        if [t.name for t in spec.tasks] != [t.name for t in work.spec.tasks]:
            work.spec = spec
            self.backend.set_phase(work, Phase.PENDING)
            self.backend.look_again()
            self.backend.happened(Trigger.ARRIVED)

    def fit(self, work: Work) -> None:
        """Which nodes will do; and if none will, the pod itself says so."""
        group, backend = self.groups[work.id], self.backend
        tasks = []
        for task in work.spec.tasks:
            pod = group.pods[task.name]
            bad = filters.unsupported(pod)
            now = (
                replace(task, nodes=()) if bad else feasibility.fitting(backend.cluster, task, pod)
            )
            why = f"{bad} is not supported" if bad else backend.herald.hindrance(pod)
            if why:
                self._say(pod, why)
            tasks.append(now)
        backend.respecify(work, tuple(tasks))

    def _say(self, pod: Plain, why: str) -> None:
        if self._told.get(key_of(pod)) != why:
            self._told[key_of(pod)] = why
            self.backend.herald.unschedulable(pod, why)

    def cannot(self, work: Work, where: dict[str, str]) -> str:
        """Why it cannot; "": they are as good as bound."""
        group = self.groups[work.id]
        made = {ReplicaId(name).task: node for name, node in where.items()}
        return feasibility.cannot(self.backend.cluster, group.pods, made)

    def launch(self, work: Work, where: dict[str, str]) -> None:
        group = self.groups.pop(work.id)
        nodes = {ReplicaId(name).task: node for name, node in where.items()}
        for name, pod in group.pods.items():
            m = self.backend.members[ReplicaId.of(work.id, name, 0)]
            m.pod, self.placed[key_of(pod)] = pod, m.id
            self.backend.cluster.assume(pod, nodes[name])
            del self._in[key_of(pod)]
            self._told.pop(key_of(pod), None)
        call = partial(
            gang_binder.bind,
            self.backend.cluster.api,
            group.pods,
            nodes,
            self.backend.cluster.around,
        )
        self.backend.cluster.lane.do(call, failed=partial(self._not_bound, work, group))

    def _not_bound(self, work: Work, group: Group, error: BackendError) -> None:
        """Some of them may be bound, even if we were told otherwise: the cluster knows."""
        group.since, group.tries = work.job.at, group.tries + 1
        why = f"it could not be bound: {error.message}"
        self._look(work, group, why)

    def _look(self, work: Work, group: Group, why: str) -> None:
        self.backend.cluster.lane.do(
            partial(_nodes, self.backend.cluster.api, group.pods),
            then=partial(self._sort_out, work, group, why),
            failed=lambda _: self._again.append(partial(self._look, work, group, why)),
        )

    def _sort_out(self, work: Work, group: Group, why: str, nodes: dict[str, str]) -> None:
        """Who is not bound waits again. Then who is bound is deleted, for nothing else unbinds;
        controllers make new ones.
        """
        there = {m.task: m for m in self.backend.members_of(work) if m.task in nodes}
        unbound = [m for name, m in there.items() if not (nodes[name] or node_of(m.pod))]
        group.pods = {}
        if not unbound:
            return  # only the answer was lost
        work.reason = why
        group.rests = self.backend.clock() + min(LONGEST, AGAIN * 2.0 ** min(9, group.tries - 1))
        self.groups[work.id] = group
        for m in unbound:
            self.backend.vanished(m)
            if m.pod is not None:
                self.changed(m.pod, there=True)
        if not group.pods:
            del self.groups[work.id]
        for m in there.values():
            self._delete(m)

    def _delete(self, m: "PodMember") -> None:
        if m.pod is None or self.backend.members.get(m.id) is not m:
            return
        path, uid = gang_binder.pod_path(m.pod), m.pod["metadata"]["uid"]
        self.backend.cluster.lane.do(
            partial(self.backend.cluster.api.delete, path, grace=0, uid=uid),
            failed=lambda _: self._again.append(partial(self._delete, m)),
        )

    def over(self, m: "PodMember", code: int) -> None:
        """What its end means is for its controller to say: the others stay."""
        work = m.work
        if m.pod is not None:
            self.placed.pop(key_of(m.pod), None)
        before, work.phase = work.phase, Phase.LEAVING
        work.then = Phase.SUCCEEDED if code == 0 else Phase.FAILED
        self.backend.ended(m, code)
        if work.members:
            work.phase = before


def _spec(group: Group) -> JobSpec:
    """Each pod is a task of its own: they need not be alike."""
    return JobSpec(
        tasks=tuple(
            Task(name=name, request=resources(asked(pod))) for name, pod in group.pods.items()
        ),
        kind="pods",
        backoff_limit=0,
    )


def _nodes(api: Api, pods: Mapping[str, Plain]) -> dict[str, str]:
    """Where each is bound by now, "" if it is not; without those that are gone."""
    found = {}
    for name, pod in pods.items():
        try:
            now = api.get(gang_binder.pod_path(pod))
        except Declined as error:
            if error.status != MISSING:
                raise
            continue
        if now["metadata"]["uid"] == pod["metadata"]["uid"]:
            found[name] = str(now["spec"].get("nodeName") or "")
    return found


def is_stranger(work: Work) -> bool:
    """Those that are ours have a manifest."""
    return work.job.manifest is None
