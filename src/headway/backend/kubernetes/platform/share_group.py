"""Pods of one namespace on one node, which divide the sum of their declared CPU requests."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf
from typing import Protocol

from headway.backend.kubernetes.client.api import Plain
from headway.backend.kubernetes.platform import pod_cpu
from headway.backend.kubernetes.platform.pod_cpu import Cpu
from headway.backend.kubernetes.platform.share_plan import LEAST_REQUEST, Member, divide
from headway.controller.commands import ApplyShare
from headway.core.model.capabilities import Capabilities
from headway.core.model.units import Cores, JobId, ReplicaId, Seconds

Key = tuple[ReplicaId, int]
"""A replica and its attempt."""
Share = tuple[Cores | None, float]
Step = dict[Key, Cpu]


class PodOwner(Protocol):
    """A job whose pods share: a TrainingJob, or an adopted pod."""

    id: JobId
    resizable: bool
    """Whether the shares of its pods can be changed."""

    @property
    def uid(self) -> str: ...

    @property
    def reference(self) -> Plain:
        """The object that events are about."""
        ...

    @property
    def capabilities(self) -> Capabilities | None: ...

    def holds(self, replica: ReplicaId, attempt: int) -> bool: ...


@dataclass(slots=True, eq=False)
class SharedPod:
    replica: ReplicaId
    attempt: int
    record: PodOwner
    pod: Plain
    limit: Cores | None
    weight: float
    """`limit` and `weight`: the share of the last plan, or the first share."""
    wish: Share | None = None
    """The share that was decided after the last plan."""
    command: ApplyShare | None = None
    """The decision that is not in effect yet."""
    reported: Share | None = None
    """The share that was last reported as in effect."""
    event_reason: str = ""
    """Why a decision was not carried out, as last written to an event."""
    held_until: Seconds = -inf
    """Time until which it is not resized, because a resize was refused."""
    held_because: str = ""
    infeasible: bool = False
    """Whether its node can never carry out the last resize, which must be reverted."""
    deferred_at: Seconds = inf
    released: bool = False
    """Whether its declared CPU is restored before it leaves."""
    outdated: str = ""
    """The version of `pod` that the API server refused, because a newer one exists."""

    @property
    def key(self) -> Key:
        return self.replica, self.attempt

    @property
    def leaving(self) -> bool:
        return bool(self.pod["metadata"].get("deletionTimestamp"))

    def member(self) -> Member:
        own = pod_cpu.declared(self.pod)
        limits = [own.limit, None if self.limit is None else pod_cpu.milli(self.limit)]
        return Member(
            weight=self.weight,
            limit=min((limit for limit in limits if limit is not None), default=None),
            declared=own.request,
            least=max(LEAST_REQUEST, pod_cpu.least_request(self.pod)),
            gap=0 if own.request == own.limit else 1,
        )

    def fixed_at(self, now: Seconds, node: Plain | None) -> Cpu | None:
        """Return the CPU that it keeps regardless of decisions; None: it may be resized."""
        if self.infeasible:
            return pod_cpu.in_effect(self.pod)
        if self.leaving or now < self.held_until:
            return pod_cpu.spec_of(self.pod)
        return pod_cpu.restored(self.pod, node) if self.released else None


@dataclass(slots=True, eq=False)
class Group:
    namespace: str
    node: str
    pods: dict[Key, SharedPod] = field(default_factory=dict)
    targets: Step = field(default_factory=dict)
    """CPU of each pod by the last plan; before its first plan, its CPU at the start."""
    due: Seconds = inf
    """Time from which there is a reason to plan again."""
    not_before: Seconds = -inf
    """Time from which pods may be resized again."""
    urgent: bool = False
    """Whether to plan at `due` although `not_before` is later."""
    steps: list[Step] = field(default_factory=list)
    """Remaining resizes of the plan. A step begins when the step before is in effect."""
    sent: set[Key] = field(default_factory=set)
    """Pods of the step before, for which the next step waits."""
    wait_until: Seconds = -inf
    calls: int = 0
    """Number of pending calls."""
    tight: bool = False
    """Whether a quota requires to lower requests before others are raised."""
    restore: bool = False
    """Whether declared values are restored regardless of decisions."""

    @property
    def total(self) -> int:
        """Sum of the requests, which plans do not change."""
        return sum(pod_cpu.declared(p.pod).request for p in self.pods.values())

    @property
    def weight(self) -> float:
        return sum(p.weight for p in self.pods.values())

    @property
    def plan_at(self) -> Seconds:
        return self.due if self.urgent else max(self.due, self.not_before)

    @property
    def next(self) -> Seconds:
        """Time at which `Shares.advance` must look at the group, unless an event comes before."""
        if self.calls:
            return inf
        deferred = [p.deferred_at for p in self.pods.values() if p.command]
        at = -inf if self.steps else self.plan_at
        return min([at if self._in_effect() else max(at, self.wait_until), *deferred])

    @property
    def returns(self) -> bool:
        """Whether the plan restores declared values, for which no decision asks again."""
        return self.restore or any(p.released for p in self.pods.values())

    def again(self, now: Seconds) -> Seconds:
        """Return when to plan again: declared values that were refused are retried."""
        held = (p.held_until for p in self.pods.values() if now < p.held_until)
        return min(held, default=inf) if self.returns else inf

    def plan(self, now: Seconds, node: Plain | None) -> Step:
        """Return the new CPU of each pod."""
        if self.restore:
            return {
                key: pod_cpu.spec_of(p.pod) if now < p.held_until else pod_cpu.restored(p.pod, node)
                for key, p in self.pods.items()
            }
        fixed = {key: cpu for key, p in self.pods.items() if (cpu := p.fixed_at(now, node))}
        free = [p for key, p in self.pods.items() if key not in fixed]
        for p in free:
            (p.limit, p.weight), p.wish = p.wish or (p.limit, p.weight), None
        total = self.total - sum(cpu.request for cpu in fixed.values())
        given = divide(max(0, total), [p.member() for p in free])
        pairs = zip(free, given, strict=True)
        return fixed | {p.key: _limited(p.pod, cpu, node) for p, cpu in pairs}

    def leave_alone(self, until: Seconds) -> None:
        """Do not resize until then: another process has restored declared values, because Headway
        is about to be removed.
        """
        self.steps.clear()
        self.due = inf
        for p in self.pods.values():
            p.held_until, p.wish = until, None
            p.held_because = "its declared CPU was restored by `headway kubernetes cleanup`"

    def changes(self) -> Step:
        """Return the targets that differ from the specs of the pods."""
        known = ((key, cpu) for key, cpu in self.targets.items() if key in self.pods)
        return {key: cpu for key, cpu in known if cpu != pod_cpu.spec_of(self.pods[key].pod)}

    def ordered(self, changes: Step, free: int) -> list[Step]:
        """Return the steps of a change. Requests are raised first if `free` has room for it: a
        pending pod could take what is lowered first.
        """
        raised = {key: cpu for key, cpu in changes.items() if self._more(key, cpu) > 0}
        lowered = {key: cpu for key, cpu in changes.items() if key not in raised}
        first = self.raises_first(changes, free)
        return [step for step in ((raised, lowered) if first else (lowered, raised)) if step]

    def raises_first(self, changes: Step, free: int) -> bool:
        extra = sum(max(0, self._more(key, cpu)) for key, cpu in changes.items())
        return not extra or (extra <= free and not self.tight)

    def lowered(self, changes: Step) -> int:
        return sum(max(0, -self._more(key, cpu)) for key, cpu in changes.items())

    def _more(self, key: Key, cpu: Cpu) -> int:
        return cpu.request - pod_cpu.spec_of(self.pods[key].pod).request

    def settled(self, now: Seconds) -> bool:
        """Whether the step before is in effect, or has timed out."""
        return now >= self.wait_until or self._in_effect()

    def _in_effect(self) -> bool:
        there = [self.pods[key] for key in self.sent if key in self.pods]
        if any(p.outdated == p.pod["metadata"].get("resourceVersion") for p in there):
            return False
        return all(pod_cpu.in_effect(p.pod) == pod_cpu.spec_of(p.pod) for p in there)


def shares_in_effect(groups: Iterable[Group], node: Plain | None) -> dict[Key, Share]:
    """Return the shares of all pods on a node. Weights of pods in different namespaces are compared
    by their requests, because decisions between namespaces have no effect.
    """
    here = [g for g in groups if g.pods]
    weight, total = sum(g.weight for g in here), sum(g.total for g in here)
    if not total:
        return {}
    found = {}
    for g in here:
        scale = (g.total / g.weight) / (total / weight) if len(here) > 1 else 1.0
        for key, p in g.pods.items():
            now, target = pod_cpu.in_effect(p.pod), g.targets.get(key)
            share = p.weight * scale
            if target is None or now.request != target.request:
                share = now.request * weight / total
            found[key] = _limit(p, now, node), round(share, 9)
    return found


def _limited(pod: Plain, cpu: Cpu, node: Plain | None) -> Cpu:
    """Return the CPU with the limit of the node if it has none: a limit cannot be removed."""
    if cpu.limit is not None or pod_cpu.spec_of(pod).limit is None:
        return cpu
    return Cpu(cpu.request, max(pod_cpu.whole(node), cpu.request + 1))


def _limit(p: SharedPod, now: Cpu, node: Plain | None) -> Cores | None:
    if now.limit is None:
        return None
    if p.limit is not None and pod_cpu.milli(p.limit) == now.limit:
        return p.limit  # exactly as it was decided
    added = pod_cpu.declared(p.pod).limit is None
    return None if added and now.limit >= pod_cpu.whole(node) else now.limit / 1000
