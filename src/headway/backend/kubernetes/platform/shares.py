"""Shares of running pods, by in-place resize: a limit is the CPU limit, a weight the CPU request.

The pods of a namespace on a node divide the sum of their declared requests, so that no quota is
exceeded and no capacity is given to other pods. Decisions that arrive together are carried out
together, at most once in ten seconds; of several decisions about a pod, the last one counts. A
refused resize is an outcome and is not retried. Only the return to declared values is retried,
because no decision would ask for it.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from math import inf

from headway.backend.clock import Clock
from headway.backend.kubernetes.client.api import Plain
from headway.backend.kubernetes.client.cache import ClusterCache
from headway.backend.kubernetes.placement.node_info import OVER, node_of
from headway.backend.kubernetes.platform import pod_cpu
from headway.backend.kubernetes.platform.node_cpu import free_cpu, pending_pod
from headway.backend.kubernetes.platform.pod_calls import forget_declared, resize
from headway.backend.kubernetes.platform.pod_cpu import Cpu
from headway.backend.kubernetes.platform.share_group import (
    Group,
    Key,
    PodOwner,
    Share,
    SharedPod,
    shares_in_effect,
)
from headway.backend.kubernetes.platform.status_writer import StatusWriter
from headway.controller.commands import ApplyShare
from headway.controller.events import (
    CommandFailed,
    Event,
    JobRestricted,
    ReplicaExited,
    ShareInEffect,
)
from headway.core.model.units import JobId, ReplicaId, Seconds
from headway.errors import BackendError, Declined, Unreachable

INFEASIBLE, DEFERRED = "Infeasible", "Deferred"
QUOTA = "exceeded quota"
NOT_RESIZED = "NotResized"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareTimes:
    interval: Seconds = 10.0
    """Shortest time between two plans of a group, and so between two resizes of a pod."""
    gather: Seconds = 0.1
    """Time in which the decisions of one cycle, which arrive one by one, are collected."""
    patience: Seconds = 5.0
    """Time in which a resize takes effect."""
    hold: Seconds = 60.0
    """Time for which a pod is not resized after a refused resize."""


TIMES = ShareTimes()


class Shares:
    def __init__(
        self,
        cluster: ClusterCache,
        writer: StatusWriter,
        clock: Clock,
        times: ShareTimes = TIMES,
    ) -> None:
        self._cluster, self._writer, self._clock, self._times = cluster, writer, clock, times
        self._groups: dict[tuple[str, str], Group] = {}
        self._pods: dict[Key, Group] = {}
        self._keys: dict[str, Key] = {}
        """Keys by the uid of the pod."""
        self._fixed: dict[JobId, tuple[str, int, str]] = {}
        """Jobs whose pods cannot be resized: uid, attempt, and reason."""
        self.restore = False
        """Whether declared values are restored; decisions then have no effect."""
        self.resizes: Counter[str] = Counter()
        """Resizes by outcome: accepted, deferred, infeasible, conflict, refused, unreachable."""

    # -- pods ------------------------------------------------------------------------------------

    def load(self, found: Iterable[tuple[PodOwner, ReplicaId, int, Plain]]) -> list[Event]:
        """Add the pods of an earlier leader. Their weights follow from their requests: 1.0 on
        average.
        """
        running, later = list(found), list[Event]()
        here = [pod for *_, pod in running if not pod_cpu.fixed(pod)[0]]
        for record, replica, attempt, pod in running:
            near = [pod_cpu.spec_of(p).request for p in here if node_of(p) == node_of(pod)]
            unit = sum(near) / len(near) if near else 0.0
            later += self._join(record, replica, attempt, pod, unit)
        for group in self._groups.values():
            group.due = self._clock()  # an earlier leader may have stopped between two resizes
        return later

    def share(self, replica: ReplicaId, attempt: int) -> Share:
        """Return the share of an attempt that is in effect."""
        group = self._pods.get((replica, attempt))
        return (group.pods[replica, attempt].reported if group else None) or (None, 1.0)

    def changed(
        self, record: PodOwner, replica: ReplicaId, attempt: int, pod: Plain
    ) -> list[Event]:
        key, phase = (replica, attempt), pod["status"].get("phase")
        if phase in OVER:
            return self.left(pod)
        group = self._pods.get(key)
        if group is None:
            runs = phase == "Running" and bool(node_of(pod)) and record.holds(replica, attempt)
            return self._join(record, replica, attempt, pod) if runs else []
        return self._update(group.pods[key], pod)

    def _join(
        self, record: PodOwner, replica: ReplicaId, attempt: int, pod: Plain, unit: float = 0.0
    ) -> list[Event]:
        """Add a pod. Its weight follows from its request, relative to other pods of the node."""
        key, node, own = (replica, attempt), node_of(pod), pod_cpu.spec_of(pod)
        pod = pod_cpu.checked(pod, self._cluster.node(node))
        reason, why = pod_cpu.fixed(pod)
        others = self._on(node)
        total = sum(g.total for g in others)
        unit = unit or (total / sum(g.weight for g in others) if total else own.request)
        weight = round(own.request / unit, 9) if unit else 1.0
        limit = None if own.limit is None else own.limit / 1000
        if reason:
            return [
                *self._restrict(record, attempt, reason, why),
                ShareInEffect(*key, limit, weight),
            ]
        if limit is not None and pod_cpu.declared(pod).limit is None:
            limit = None if own.limit == pod_cpu.whole(self._cluster.node(node)) else limit
        place = pod["metadata"]["namespace"], node
        group = self._groups.setdefault(place, Group(*place, restore=self.restore))
        joined = SharedPod(replica, attempt, record, pod, limit, weight, reported=(limit, weight))
        group.pods[key], group.targets[key], self._pods[key] = joined, own, group
        self._keys[pod["metadata"]["uid"]] = key
        found: list[Event] = [ShareInEffect(*key, limit, weight)]
        known = self._fixed.get(record.id)
        if known is not None and known[0] == record.uid and known[1] < attempt:
            del self._fixed[record.id]
            self._writer.resizable(record, "Resizable", "", holds=True)
            record.resizable = True
            found.append(JobRestricted(record.id, record.capabilities))
        return found

    def _restrict(self, record: PodOwner, attempt: int, reason: str, why: str) -> list[Event]:
        known = self._fixed.get(record.id)
        self._fixed[record.id] = record.uid, attempt, why
        if known is not None and known[0] == record.uid:
            return []
        self._writer.resizable(record, reason, f"its shares are not changed: {why}", holds=False)
        record.resizable = False
        return [JobRestricted(record.id, record.capabilities)]

    def forget(self, job: JobId) -> None:
        """Forget a deleted job: another job may get its name."""
        self._fixed.pop(job, None)

    def left(self, pod: Plain) -> list[Event]:
        """Remove a pod that has ended or was deleted. The other pods of its group get back at once
        what it had beyond its own request.
        """
        key = self._keys.pop(pod["metadata"]["uid"], None)
        if key is None:
            return []
        group = self._pods.pop(key)
        del group.pods[key]
        group.targets.pop(key, None)
        if not group.pods:
            del self._groups[group.namespace, group.node]
            return self._report(group.node)
        group.due, group.urgent = self._clock() + self._times.gather, True
        return self._report(group.node)

    def _update(self, p: SharedPod, pod: Plain) -> list[Event]:
        if pod_cpu.is_noted(p.pod) and not pod_cpu.is_noted(pod):
            self._pods[p.key].leave_alone(self._clock() + self._times.hold)
        p.pod = pod_cpu.checked(pod, self._cluster.node(node_of(pod)))
        reason, message = pod_cpu.refused(pod)
        found: list[Event] = []
        if reason == INFEASIBLE and not p.infeasible:
            p.infeasible = True
            self.resizes["infeasible"] += 1
            found += self._hold(p, f"{INFEASIBLE}: {message}")
        elif reason == DEFERRED:
            p.deferred_at = min(p.deferred_at, self._clock() + self._times.patience)
        elif not reason:
            p.infeasible, p.deferred_at = False, inf
        return [*self._report(node_of(pod)), *found, *self._returned(p)]

    def release(self, replica: ReplicaId, attempt: int) -> list[Event]:
        """Restore the declared values of a pod; report it as exited when they are in effect."""
        group = self._pods.get((replica, attempt))
        if group is None:
            return [ReplicaExited(replica, attempt, code=0)]
        p = group.pods[replica, attempt]
        p.released, group.due, group.urgent = True, self._clock(), True
        return self._returned(p)

    def _returned(self, p: SharedPod) -> list[Event]:
        """Report a released pod as exited if its declared values are in effect, or if it is being
        deleted.
        """
        own = pod_cpu.restored(p.pod, self._cluster.node(node_of(p.pod)))
        there = pod_cpu.spec_of(p.pod) == pod_cpu.in_effect(p.pod) == own
        if not p.released or not (there or p.leaving):
            return []
        if pod_cpu.is_noted(p.pod):
            worker = self._cluster.worker_of(p.pod["metadata"]["namespace"])
            worker.do(partial(forget_declared, self._cluster.api, p.pod))
        return [*self.left(p.pod), ReplicaExited(*p.key, code=0)]

    def _hold(self, p: SharedPod, why: str) -> list[Event]:
        """Keep the share in effect for some time, because a resize was refused."""
        p.held_until, p.held_because = self._clock() + self._times.hold, why
        group = self._pods[p.key]
        group.steps.clear()
        group.due = self._clock() + self._times.gather
        group.urgent = not p.infeasible  # it asks for what it had: others must not give or take
        (p.limit, p.weight), p.wish = p.reported or (p.limit, p.weight), None
        return self._refuse(p, why)

    def _refuse(self, p: SharedPod, why: str) -> list[Event]:
        """Report that a decision has no effect. An event of the job says why, once."""
        if why != p.event_reason:
            p.event_reason = why
            message = f"{p.replica.name}: its share was not set: {why}"
            self._writer.event(p.record, NOT_RESIZED, message, warning=True)
        command, p.command = p.command, None
        return [] if command is None else [CommandFailed(command, why)]

    def _report(self, node: str) -> list[Event]:
        """Return changed shares in effect, and decisions that were carried out only in part."""
        found: list[Event] = []
        there = self._on(node)
        for key, share in shares_in_effect(there, self._cluster.node(node)).items():
            p = self._pods[key].pods[key]
            if share != p.reported:
                p.reported = share
                found.append(ShareInEffect(*key, *share))
            found += self._carried_out(p, self._pods[key], share)
        return found

    def _carried_out(self, p: SharedPod, group: Group, share: Share) -> list[Event]:
        command, target = p.command, group.targets.get(p.key)
        busy = group.calls or group.steps or group.due < inf
        if command is None or busy or target != pod_cpu.in_effect(p.pod):
            return []
        if share == (command.limit, command.weight):
            p.command, p.event_reason = None, ""
            return []
        limit = "no limit" if share[0] is None else f"limit {share[0]:g} cores"
        why = (
            f"in effect are {limit} and weight {share[1]:.3g}: CPU requests of a namespace on a "
            "node add up to what its pods declare, and a limit is not below the request"
        )
        return self._refuse(p, why)

    def _on(self, node: str) -> list[Group]:
        return [g for g in self._groups.values() if g.node == node]

    # -- decisions -------------------------------------------------------------------------------

    def apply(self, command: ApplyShare) -> list[Event]:
        """Carry out a decision, together with others that arrive now, or when the pods may be
        resized again. A later decision replaces it.
        """
        key, now = (command.replica, command.attempt), self._clock()
        group = self._pods.get(key)
        if group is None:
            *_, why = self._fixed.get(command.job, ("its pod does not run",))
            return [CommandFailed(command, why)]
        p = group.pods[key]
        if now < p.held_until:
            return [CommandFailed(command, p.held_because)]
        p.wish, p.command = (command.limit, command.weight), command
        group.due = min(group.due, now + self._times.gather)
        return []

    def restore_declared(self) -> None:
        """Restore declared values from now on."""
        self.restore = True
        for group in self._groups.values():
            group.restore, group.due = True, self._clock()

    @property
    def due(self) -> Seconds:
        """Return when `advance` must be called next."""
        return min((g.next for g in self._groups.values()), default=inf)

    def advance(self) -> list[Event]:
        """Carry out decisions as far as possible now."""
        now, found = self._clock(), list[Event]()
        for group in list(self._groups.values()):
            for p in group.pods.values():
                found += self._deferred(p, now)
            if not group.calls:
                found += self._advance(group, now)
        return found

    def _deferred(self, p: SharedPod, now: Seconds) -> list[Event]:
        """Report a deferred resize as without effect. The node may still carry it out later."""
        if p.command is None or p.deferred_at > now:
            return []
        self.resizes["deferred"] += 1
        return self._refuse(p, f"{DEFERRED}: {pod_cpu.refused(p.pod)[1]}")

    def _advance(self, group: Group, now: Seconds) -> list[Event]:
        due = group.steps or group.plan_at <= now
        if not due or not group.settled(now):
            return []
        if not group.steps:
            group.due, group.urgent = group.again(now), False
            group.targets = group.plan(now, self._cluster.node(group.node))
            changes = group.changes()
            if not changes:
                return self._report(group.node)
            free, taker = free_cpu(self._cluster, group.node), ""
            if not group.raises_first(changes, free):
                room = free + group.lowered(changes)
                taker = pending_pod(self._cluster, group.node, free, room)
            if taker:
                return self._wait(group, taker)
            group.steps = group.ordered(changes, free)
        step = group.steps.pop(0)
        group.sent, group.wait_until = set(step), now + self._times.patience
        for key, cpu in step.items():
            if key in group.pods:
                self._resize(group, group.pods[key], cpu)
        return []

    def _wait(self, group: Group, taker: str) -> list[Event]:
        """Postpone a plan: a pending pod could take the CPU that is released first."""
        group.not_before = self._clock() + self._times.interval
        if group.returns:
            group.due = group.not_before
        for key, p in group.pods.items():
            group.targets[key] = pod_cpu.spec_of(p.pod)
            p.limit, p.weight = p.reported or (p.limit, p.weight)
        why = f"the pending pod {taker} could take the CPU that one pod gives to another"
        return [e for p in group.pods.values() if p.command for e in self._refuse(p, why)]

    def _resize(self, group: Group, p: SharedPod, cpu: Cpu) -> None:
        group.calls += 1

        def done(pod: Plain) -> list[Event]:
            self.resizes["accepted"] += 1
            group.calls -= 1
            group.not_before = self._clock() + self._times.interval
            newer = _number(pod) > _number(p.pod)  # the watch may have been faster
            return self._update(p, pod if newer else p.pod) if p.key in group.pods else []

        def failed(error: BackendError) -> list[Event]:
            group.calls -= 1
            group.not_before = self._clock() + self._times.interval
            return self._failed(group, p, error) if p.key in group.pods else []

        call = partial(resize, self._cluster.api, p.pod, cpu)
        self._cluster.worker_of(p.pod["metadata"]["namespace"]).do(call, done, failed)

    def _failed(self, group: Group, p: SharedPod, error: BackendError) -> list[Event]:
        now = self._clock()
        status = error.status if isinstance(error, Declined) else None
        if status == HTTPStatus.NOT_FOUND:
            return []
        self.resizes[_outcome(error)] += 1
        if status == HTTPStatus.CONFLICT:  # the same again when the newer version is known
            p.outdated = p.pod["metadata"]["resourceVersion"]
            group.steps.insert(0, {p.key: group.targets[p.key]})
            group.wait_until = now + self._times.interval
            return []
        if isinstance(error, Unreachable):
            group.steps.clear()
            group.due = now + self._times.interval
            return []
        if QUOTA in error.message and not group.tight:
            group.tight = True
            group.steps.clear()
            group.due = now + self._times.interval
            return self._refuse(p, error.message)
        return self._hold(p, error.message)


def _outcome(error: BackendError) -> str:
    if isinstance(error, Unreachable):
        return "unreachable"
    conflict = isinstance(error, Declined) and error.status == HTTPStatus.CONFLICT
    return "conflict" if conflict else "refused"


def _number(pod: Plain) -> int:
    return int(pod["metadata"]["resourceVersion"])
