"""A Kubernetes cluster as a platform: each job a `TrainingJob`, each replica a pod that we bind.

All that must survive us lies in the cluster: a job's status says where its replicas go and how
often it was started, the pods say the rest. So a new leader finds by looking what an old one left,
and either completes it or takes it down (`job_controller.py`). Everything below runs in
the loop's thread.
"""

import signal
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from headway.backend.clock import Clock
from headway.backend.kubernetes.client.api import Api, Plain
from headway.backend.kubernetes.client.cache import ClusterCache
from headway.backend.kubernetes.placement import feasibility, filters, gang_binder
from headway.backend.kubernetes.placement.node_info import OVER, node_of, ready, to_core
from headway.backend.kubernetes.platform import pod_status
from headway.backend.kubernetes.platform.foreign_pods import ForeignPods, is_stranger
from headway.backend.kubernetes.platform.job_controller import JobController
from headway.backend.kubernetes.platform.job_status import JobStatus, PodMember, arrival
from headway.backend.kubernetes.platform.orphan_pods import OrphanPods
from headway.backend.kubernetes.platform.start_timeout import StartTimeout
from headway.backend.kubernetes.platform.status_writer import StatusWriter
from headway.backend.kubernetes.platform.ttl import TtlController
from headway.backend.live import LiveBackend
from headway.backend.state import Work
from headway.backend.worker import LoopQueue
from headway.core.model.decision import Move, Place, SetShare, Suspend
from headway.core.model.job import Phase, Task
from headway.core.model.snapshot import Observation, Trigger
from headway.core.model.units import Cores, JobId, NodeId, ReplicaId, Seconds
from headway.errors import BackendError, Declined, HeadwayError
from headway.spec.runnable import LiveJob

SOON: Seconds = 2.0
"""How long the servers of a job that is done may take to leave."""
LONGEST: Seconds = 60.0
"""Between two tries of a gang that the cluster declines."""
AGAIN: Seconds = 1.0
"""Until a status that could not be written is tried again."""
REMOVED = 137
"""The exit code of a pod that somebody deleted."""


class KubernetesBackend(LiveBackend[PodMember]):
    kind = "kubernetes"
    placed = Phase.STARTING

    def __init__(
        self,
        folder: Path,
        api: Api,
        jobs: Sequence[LiveJob],
        clock: Clock,
        *,
        namespace: str = "",
        run: str = "",
    ) -> None:
        """With `run`: its jobs and no others, made here as they become due. Without: every job
        that is in the cluster, or comes to be, and never an end.
        """
        super().__init__(folder, (), jobs, clock)
        self.run, self.namespace = run, namespace
        self.records: dict[JobId, JobStatus] = {}
        self._declined: dict[JobId, int] = {}
        self._fits_anew = True
        self._stopping, self._tell_at = False, 0.0
        self.mail = LoopQueue()
        self.wake_by(self.mail.file, self.mail.read)
        self.cluster = ClusterCache(api, namespace, run, self.mail)
        self.herald = StatusWriter(self.cluster)
        self.intake = JobController(self)
        self.strangers = ForeignPods(self)
        self.burial = TtlController(self.cluster)
        self.strays, self.slow = OrphanPods(self), StartTimeout(self)
        try:
            self.cluster.begin()
        except HeadwayError:
            self.cluster.close()
            raise
        for name in self.cluster.nodes:
            self._renew(name[1])
        for each in sorted(self.cluster.jobs.values(), key=arrival):
            self.intake.take_in(each)
            self.burial.saw(each)
        self.cluster.tell(
            self._down, nodes=self._node_changed, pods=self._pod_changed, jobs=self._job_changed,
            claims=self.look_again, volumes=self.look_again, classes=self.look_again,
        )  # fmt: skip
        for pod in list(self.cluster.pods.values()):
            self._pod_changed(None, pod)
        for name in self.cluster.nodes:  # which of their pods are ours is known only now
            self._renew(name[1])

    @property
    def how(self) -> tuple[str, str]:
        return "kubernetes", "Kubernetes (what each pod requests)"

    @property
    def over(self) -> bool:
        return super().over if self.run else self._stopping

    def end(self, work: Work, phase: Phase) -> None:
        """Once the chief is done, nobody has anything left to save."""
        if phase is Phase.SUCCEEDED:
            for m in self.members_of(work):
                m.grace = min(m.grace, SOON)
        super().end(work, phase)

    def stop_serving(self) -> None:
        self._stopping = True

    def id_of(self, space: str, name: str) -> JobId:
        return JobId(name if self.namespace else f"{space}/{name}")

    def _due(self) -> Seconds:
        """What is overdue waits for the cluster: no hurry."""
        times = [super()._due(), self.strangers.due(), *self.slow.due()]
        return max(min(times), self.clock() + 0.01)

    def admit(self, work: Work) -> bool:
        return self.intake.admit(work)

    def observe(self, look: tuple[NodeId, ...] = ()) -> Observation:
        seen = super().observe(look)
        self.intake.forget()
        return seen

    def resume_at(self, work: Work, phase: Phase) -> None:
        """It had come so far before us; its status says so already."""
        super().set_phase(work, phase)

    # -- starts ----------------------------------------------------------------------------------

    def gang_of(self, work: Work) -> list[str]:
        return [
            ReplicaId.of(work.id, t.name, i).name
            for t in work.spec.tasks
            for i in range(t.replicas)
        ]

    def pods_of(self, record: JobStatus, names: Sequence[str]) -> dict[str, Plain]:
        made = record.epoch or 1
        return {n: pod_status.make(record.job, record.spec, n, made, names) for n in names}

    def _place(self, d: Place) -> str:
        work, record = self.works.get(d.job), self.records.get(d.job)
        if work is None or work.phase is not Phase.PENDING:
            return "it is not waiting"
        where = {name.name: str(node) for name, node in d.where}
        if why := feasibility.partial(work.spec.tasks, where):
            return why
        if is_stranger(work):
            why = self.strangers.cannot(work, where) or super()._place(d)
            if not why:
                self.strangers.launch(work, where)
            return why
        if record is None:
            return "its TrainingJob is not there yet"
        made = self.pods_of(record, list(where))
        why = feasibility.cannot(self.cluster, made, where)
        if why:
            return why
        last = max((pod_status.epoch_of(p) for p in self.cluster.of_job(record.job)), default=0)
        record.epoch, record.placement = max(record.epoch, last) + 1, where
        on = ", ".join(f"{name} on {node}" for name, node in where.items())
        record.say("Placed", True, "Placed", f"{on}: {d.reason}")
        why = super()._place(d)
        if not why:
            self.strays.tidy(record)
            self.herald.event(record, "Placed", f"{on}: {d.reason}")
            self.launch(work, record)
        return why

    def start(self, work: Work, name: ReplicaId, node: NodeId, rank: tuple[int, int]) -> PodMember:
        record = self.records.get(work.id)
        m = PodMember(name, work, node, record.epoch if record else 0)
        m.rank = rank
        return self.host(m)

    def launch(self, work: Work, record: JobStatus) -> None:
        ranked = work.by_rank(ReplicaId.named(work.id, name) for name in record.placement)
        made = self.pods_of(record, [name.name for name in ranked])
        for name, pod in made.items():
            m = self.members.get(ReplicaId.named(work.id, name))
            made[name] = m.pod if m is not None and m.pod is not None else pod
            self.cluster.assume(made[name], record.placement[name])
        status = record.status(Phase.STARTING, "", work.tries)
        whole = gang_binder.Gang(
            record.job, made, dict(record.placement), status, self.cluster.around
        )
        epoch = record.epoch
        self.cluster.lane.do(
            partial(gang_binder.launch, self.cluster.api, whole),
            failed=partial(self._not_launched, work, epoch),
        )

    def _not_launched(self, work: Work, epoch: int, error: BackendError) -> None:
        record = self.records.get(work.id)
        if record is None or record.epoch != epoch or not work.members:
            return
        why = "; ".join(filter(None, (f"it could not be started: {error.message}", error.hint)))
        if isinstance(error, Declined) and error.status in (400, 422):
            self.try_again(work, why, last=True)
        else:
            self.let_go(work, why)

    def let_go(self, work: Work, why: str) -> None:
        """The cluster will not have one of them: all go, at once, and the job waits again."""
        self._declined[work.id] = self._declined.get(work.id, 0) + 1
        record = self.records.get(work.id)
        if record is not None:
            record.say("Placed", False, "Declined", why)
            self.herald.event(record, "Released", why, warning=True)
        for m in self.members_of(work):
            m.grace = 0.0
        self.put_back(work, why)

    def members_of(self, work: Work) -> list[PodMember]:
        return [self.members[name] for name in work.members]

    def refusal(self, tasks: Sequence[tuple[Task, NodeId]]) -> str:  # noqa: ARG002 - see `_place`
        return ""

    # -- while it runs ---------------------------------------------------------------------------

    def _set_share(self, d: SetShare) -> str:  # noqa: ARG002
        return "shares are not set on a cluster yet"

    def _move(self, d: Move) -> str:  # noqa: ARG002
        return "jobs are not moved on a cluster yet"

    def _suspend(self, d: Suspend) -> str:
        work = self.works.get(d.job)
        if work is not None:
            work.hold(False)
        return "jobs are not suspended on a cluster yet"

    def share(self, m: PodMember, limit: Cores | None, weight: float) -> None:
        raise NotImplementedError  # never asked for: `_set_share` has refused

    def signal(self, m: PodMember, number: int) -> None:
        """A pod is not signalled but deleted; the kubelet does the rest. What is over stays."""
        if m.pod is not None and m.pod["status"].get("phase") in OVER:
            return
        path = f"/api/v1/namespaces/{self._space(m)}/pods/{self._name(m)}"
        grace = 1.0 if number == signal.SIGKILL else max(1.0, m.grace)
        if not self._may_run(m):
            grace = 0.0
        self.cluster.lane.do(
            partial(self.cluster.api.delete, path, grace=grace),
            lambda there: None if there else self.vanished(m),
            failed=lambda _: self._not_deleted(m),
        )

    def _may_run(self, m: PodMember) -> bool:
        """Only what nobody can be running is deleted without its kubelet's word."""
        phase = m.pod["status"].get("phase") if m.pod is not None else None
        return node_of(m.pod) != "" and (phase == "Running" or self.cluster.is_up(m.node))

    def _not_deleted(self, m: PodMember) -> None:
        m.kill_at = self.clock() + AGAIN

    def _space(self, m: PodMember) -> str:
        return self.namespace or m.work.id.partition("/")[0]

    @staticmethod
    def _name(m: PodMember) -> str:
        if m.pod is not None:
            return str(m.pod["metadata"]["name"])
        return pod_status.name_of(m.work.id.rpartition("/")[2], m.replica, m.epoch)

    def _job_changed(self, before: Plain | None, new: Plain | None) -> None:
        self.intake.changed(before, new)
        if new is not None:
            self.burial.saw(new)

    # -- what pods tell --------------------------------------------------------------------------

    def member_of(self, pod: Plain) -> PodMember | None:
        labels = pod["metadata"].get("labels") or {}
        if pod_status.REPLICA not in labels or pod_status.JOB not in labels:
            return self.strangers.member_of(pod)
        m = self.members.get(
            ReplicaId.named(self.job_of(pod) or JobId(""), labels[pod_status.REPLICA])
        )
        return m if m is not None and m.epoch == pod_status.epoch_of(pod) else None

    def job_of(self, pod: Plain) -> JobId | None:
        """By its labels; None: it is for another Headway to look after, or for none."""
        labels, space = pod["metadata"].get("labels") or {}, pod["metadata"]["namespace"]
        if pod_status.REPLICA not in labels or labels.get(pod_status.RUN, "") != self.run:
            return None
        if self.namespace not in ("", space):
            return None
        return self.id_of(space, labels.get(pod_status.JOB, ""))

    def _pod_changed(self, before: Plain | None, new: Plain | None) -> None:
        pod = new or before or {}
        m = self.member_of(pod)
        if filters.exclusive(pod) or any(
            self.cluster.is_crowded(n) for n in (node_of(before), node_of(new))
        ):
            self.look_again()
        if m is None:
            if new is not None:
                self.strays.saw(new)
            if self.strangers.wants(pod):
                self.strangers.changed(pod, there=new is not None)
            for node in {node_of(before), node_of(new)} - {""}:
                self._renew(node)
            return
        if new is None:
            self.vanished(m)
        else:
            m.pod = new
            self._advance(m, new)

    def _advance(self, m: PodMember, pod: Plain) -> None:
        phase, work = pod["status"].get("phase"), m.work
        declined = "" if is_stranger(work) else pod_status.declined(pod)
        if declined:
            if work.phase is not Phase.LEAVING:
                self.let_go(work, f"{m.node} would not take {m.replica}: {declined}")
            self.pod_over(m, 1)
        elif phase == "Succeeded":
            self.pod_over(m, 0)
        elif phase == "Failed":
            m.why = pod_status.why(pod)
            self.pod_over(m, pod_status.code_of(pod) or 1)
        elif phase == "Running":
            m.stuck_at = m.bound_at = None
            self._runs(m)
        else:
            self.slow.waits(m, pod)

    def _runs(self, m: PodMember) -> None:
        work = m.work
        if m.phase is not Phase.STARTING:
            return
        self.set_member(m, Phase.RUNNING)
        if work.phase is Phase.STARTING and all(
            x.phase is Phase.RUNNING for x in work.members.values()
        ):
            self._declined.pop(work.id, None)
            self.set_phase(work, Phase.RUNNING)
        self.happened(Trigger.STARTED)

    def pod_over(self, m: PodMember, code: int) -> None:
        if self.members.get(m.id) is not m:
            return
        self.cluster.assume_not((self._space(m), self._name(m)))
        m.fall_silent()
        if is_stranger(m.work):
            self.strangers.over(m, code)
        else:
            self.ended(m, code)

    def vanished(self, m: PodMember) -> None:
        m.why = m.why or "its pod was deleted"
        self.pod_over(m, REMOVED)

    def _on_time(self) -> None:
        super()._on_time()
        self.burial.on_time()
        self.slow.on_time()
        self.strangers.on_time()
        if (self.herald.untold or self.strays.left) and self.clock() >= self._tell_at:
            self._try_again()
        if self._fits_anew:
            self._fits_anew = False
            self._fit()

    def _try_again(self) -> None:
        """What the server did not answer to."""
        self._tell_at = self.clock() + AGAIN
        self.strays.try_again()
        untold, self.herald.untold = self.herald.untold, {}
        for name, work in untold.items():
            if name in self.records and work.phase is not Phase.LEAVING:
                self.herald.status(work, self.records[name])

    # -- what nodes tell -------------------------------------------------------------------------

    def _node_changed(self, before: Plain | None, new: Plain | None) -> None:
        name = (new or before or {})["metadata"]["name"]
        if new is None:
            if NodeId(name) in self.nodes:
                self.set_node(replace(self.nodes[NodeId(name)], up=False))
        else:
            self._renew(name)
        if new is None or not ready(new):
            self._node_lost(NodeId(name))
        if new is None or before is None or feasibility.said(before) != feasibility.said(new):
            self._fits_anew = True

    def _node_lost(self, node: NodeId) -> None:
        """A gang that was about to start there holds nothing elsewhere. What runs may be running
        still: that is for the cluster to find out, which deletes its pods in time.
        """
        for m in [m for m in self.members.values() if m.node == node]:
            if (
                m.phase is Phase.STARTING
                and m.work.phase is Phase.STARTING
                and not is_stranger(m.work)
            ):
                self.let_go(m.work, f"{node}, where {m.replica} was to go, is gone")

    def _renew(self, name: str) -> None:
        """What is left of it beside the pods of others."""
        node = self.cluster.nodes.get(("", name))
        if node is None:
            return
        foreign = [p for p in self.cluster.others(name) if self.member_of(p) is None]
        now = to_core(node, foreign)
        if self.nodes.get(now.id) != now:
            self.set_node(now)

    def look_again(self, *_: Plain | None) -> None:
        """Who may go where is to be worked out anew."""
        self._fits_anew = True

    def _fit(self) -> None:
        """Which nodes each task of a waiting job may go to: the policy is to know."""
        for work in self.works.values():
            record = self.records.get(work.id)
            if work.phase is Phase.PENDING and is_stranger(work):
                self.strangers.fit(work)
            if record is None or work.phase is not Phase.PENDING:
                continue
            made = self.pods_of(record, [f"{t.name}-0" for t in work.spec.tasks])
            tasks = tuple(
                feasibility.fitting(self.cluster, t, made[f"{t.name}-0"]) for t in work.spec.tasks
            )
            self.respecify(work, tasks)
            self.herald.waiting(work, record, made)

    def respecify(self, work: Work, tasks: tuple[Task, ...]) -> None:
        if tasks != work.spec.tasks:
            work.spec = replace(work.spec, tasks=tasks)
            self._news[0][work.id] = None
            self.happened(Trigger.NODE)

    def leave(self, work: Work) -> None:
        """Nothing is left of it."""
        self._gone(work)
        self.happened(Trigger.FINISHED)

    def _down(self, error: BackendError) -> None:
        """What we know stays as it is until the server is back; then all is listed again."""
        self.herald.log_once(error)

    # -- phases, as the status tells them --------------------------------------------------------

    def set_phase(self, work: Work, phase: Phase) -> None:
        super().set_phase(work, phase)
        record = self.records.get(work.id)
        if record is None or phase in (Phase.STARTING, Phase.LEAVING):
            return  # the first is written before the gang is bound, the second passes
        self.herald.phase(work, record, phase)

    def _gone(self, work: Work) -> None:
        super()._gone(work)
        if is_stranger(work):
            self.intake.let_go(work.id)
        if work.then is Phase.PENDING and work.id in self._declined:
            work.again_at = self.clock() + min(LONGEST, 2.0 ** min(9, self._declined[work.id] - 1))
        record = self.records.get(work.id)
        if work.then is Phase.PENDING and record is not None:
            self.herald.phase(work, record, Phase.PENDING)

    def release(self, m: PodMember) -> None:
        raise NotImplementedError  # never asked for: nothing is adopted here

    def cleared(self, m: PodMember) -> bool:  # noqa: ARG002
        """What has ended is kept for whoever wants to read it; it goes with its job."""
        return True

    def killed_for_memory(self, m: PodMember) -> bool:
        return m.pod is not None and pod_status.out_of_memory(m.pod)

    def close(self) -> None:
        """The jobs of a run go with it: what came of them is in its folder."""
        for record in self.records.values() if self.run else ():
            self.cluster.lane.do(partial(self.cluster.api.delete, gang_binder.path_of(record.job)))
        super().close()
        self.cluster.close()
