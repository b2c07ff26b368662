"""Pods of one namespace on one node: they share the sum of the CPU requests that they declare."""

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
    """The shares of its pods can be changed."""

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
    """The share that its targets follow from: that of the last plan, or what it began with."""
    wish: Share | None = None
    """The share that was decided since."""
    command: ApplyShare | None = None
    """The decision that is not in effect yet."""
    told: Share | None = None
    """The share that was last reported as in effect."""
    said: str = ""
    """Why a decision was not carried out, as last written to an event."""
    held_until: Seconds = -inf
    """Until then it is not resized, because a resize was refused."""
    held_because: str = ""
    infeasible: bool = False
    """Its node will never carry out what was asked: that is to be taken back."""
    deferred_at: Seconds = inf
    released: bool = False
    """It gets back what it declares, and leaves."""
    outdated: str = ""
    """The version of `pod` that the API server has refused, because there is a newer one."""

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
        """What it has whatever was decided; None: it may be resized."""
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
    """As last planned; of a pod that was never part of a plan, what it began with."""
    due: Seconds = inf
    """When there is a reason to plan again."""
    not_before: Seconds = -inf
    """When pods may be resized again."""
    urgent: bool = False
    """The reason does not allow to wait for that."""
    steps: list[Step] = field(default_factory=list)
    """Resizes that are left of the plan; a step begins when the one before is in effect."""
    sent: set[Key] = field(default_factory=set)
    """Pods of the step before, if the next one waits until they are in effect."""
    wait_until: Seconds = -inf
    calls: int = 0
    """Calls under way."""
    tight: bool = False
    """A quota leaves no room to raise before lowering."""
    restore: bool = False
    """Declared values return, whatever was decided."""

    @property
    def total(self) -> int:
        """The sum that is conserved."""
        return sum(pod_cpu.declared(p.pod).request for p in self.pods.values())

    @property
    def weight(self) -> float:
        return sum(p.weight for p in self.pods.values())

    @property
    def plan_at(self) -> Seconds:
        return self.due if self.urgent else max(self.due, self.not_before)

    @property
    def next(self) -> Seconds:
        """When to look at it, if nothing happens before."""
        if self.calls:
            return inf
        deferred = [p.deferred_at for p in self.pods.values() if p.command]
        at = -inf if self.steps else self.plan_at
        return min([at if self._in_effect() else max(at, self.wait_until), *deferred])

    @property
    def returns(self) -> bool:
        """No decision will ask again for what is planned: declared values return."""
        return self.restore or any(p.released for p in self.pods.values())

    def again(self, now: Seconds) -> Seconds:
        """When to plan again what a plan leaves now: declared values return after a refusal too."""
        held = (p.held_until for p in self.pods.values() if now < p.held_until)
        return min(held, default=inf) if self.returns else inf

    def plan(self, now: Seconds, node: Plain | None) -> Step:
        """What each pod is to have."""
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
        """Another process has restored declared values: Headway is about to be removed."""
        self.steps.clear()
        self.due = inf
        for p in self.pods.values():
            p.held_until, p.wish = until, None
            p.held_because = "its declared CPU was restored by `headway kubernetes cleanup`"

    def changes(self) -> Step:
        """Targets that differ from what the pods ask for."""
        known = ((key, cpu) for key, cpu in self.targets.items() if key in self.pods)
        return {key: cpu for key, cpu in known if cpu != pod_cpu.spec_of(self.pods[key].pod)}

    def ordered(self, changes: Step, free: int) -> list[Step]:
        """Raise before lowering where `free` has room for it: what is lowered first could be taken
        by a pending pod.
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
        """The step before is in effect, or has had its time."""
        return now >= self.wait_until or self._in_effect()

    def _in_effect(self) -> bool:
        there = [self.pods[key] for key in self.sent if key in self.pods]
        if any(p.outdated == p.pod["metadata"].get("resourceVersion") for p in there):
            return False
        return all(pod_cpu.in_effect(p.pod) == pod_cpu.spec_of(p.pod) for p in there)


def shares_in_effect(groups: Iterable[Group], node: Plain | None) -> dict[Key, Share]:
    """Of all pods on a node. Weights of pods in different namespaces are compared by their
    requests: what was decided between them has no effect.
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
    """A limit cannot be removed. No limit is that of the node."""
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
