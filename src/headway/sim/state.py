"""What the world keeps of each node, job and replica. Changed in place, by the world alone."""

from math import inf

import numpy as np

from headway.core.job import Job, Phase, Replica, task_of
from headway.core.node import Node
from headway.core.report import Report, Usage
from headway.core.units import Cores, CoreSeconds, ReplicaId, Seconds
from headway.sim.curve import Log, settled_after
from headway.sim.scenario import Arrival, Costs


class NodeState:
    __slots__ = ("node", "replicas", "up", "version")

    def __init__(self, node: Node) -> None:
        self.node, self.up, self.version = node, True, 0
        self.replicas: dict[ReplicaId, ReplicaState] = {}

    def seen(self) -> Node:
        n = self.node
        return Node(id=n.id, capacity=n.capacity, speed=n.speed, rack=n.rack, up=self.up)


class ReplicaState:
    __slots__ = (
        "bound_for", "cores", "heard_at", "heard_done", "heard_used", "id", "job", "limit",
        "node", "phase", "task", "used", "weight",
    )  # fmt: skip

    def __init__(self, name: ReplicaId, job: "JobState", node: NodeState, now: Seconds) -> None:
        self.id, self.job, self.task, self.phase = name, job, task_of(name), Phase.STARTING
        self.node: NodeState | None = node
        self.bound_for: NodeState | None = None
        self.limit: Cores | None = None
        self.weight, self.cores, self.used = 1.0, 0.0, 0.0
        self.heard_at, self.heard_used, self.heard_done = now, 0.0, job.done

    def seen(self) -> Replica:
        return Replica(
            id=self.id,
            job=self.job.arrival.id,
            task=self.task,
            node=self.node.node.id if self.node else None,
            phase=self.phase,
            bound_for=self.bound_for.node.id if self.bound_for else None,
            limit=self.limit,
            weight=self.weight,
        )

    def report(self, now: Seconds) -> Report | None:
        """What is heard of it since the last time: one mean, and what it used."""
        if now <= self.heard_at:
            return None
        job, since = self.job, self.heard_at
        steps = job.arrival.steps / job.arrival.work
        silent = job.arrival.silent
        said = None if silent else job.log().between(self.heard_done * steps, job.done * steps)
        cpu = (self.used - self.heard_used) / (now - since)
        self.heard_at, self.heard_used, self.heard_done = now, self.used, job.done
        return Report(
            replica=self.id,
            since=since,
            at=now,
            step=None if silent else job.done * steps,
            value=said[0] if said else None,
            high=said[1] if said else None,
            usage=Usage(cpu=cpu),
        )


class JobState:
    __slots__ = (
        "_costs", "_log", "arrival", "done", "finished_at", "index", "moves", "phase", "quality",
        "quality_at", "rate", "reason", "replicas", "saved", "seed", "since", "started_at",
        "tries", "version", "wasted",
    )  # fmt: skip

    def __init__(self, arrival: Arrival, index: int, seed: int) -> None:
        self.arrival, self.index, self.seed = arrival, index, seed
        self.phase, self.reason, self.version = Phase.WAITING, "", 0
        self.done: CoreSeconds = 0.0
        self.rate, self.since = 0.0, arrival.at
        self.saved: CoreSeconds = 0.0
        """Work in its last complete checkpoint."""
        self.wasted: CoreSeconds = 0.0
        self.started_at: Seconds | None = None
        self.finished_at: Seconds | None = None
        self.quality: CoreSeconds = arrival.work * settled_after(arrival.curve)
        self.quality_at: Seconds | None = None
        self.tries = self.moves = 0
        self.replicas: dict[ReplicaId, ReplicaState] = {}
        self._log: Log | None = None
        self._costs: np.random.Generator | None = None

    def seen(self) -> Job:
        return Job(
            id=self.arrival.id,
            spec=self.arrival.spec,
            submitted_at=self.arrival.at,
            phase=self.phase,
            reason=self.reason,
            truth=self.arrival.work - self.done,
        )

    def log(self) -> Log:
        if self._log is None:
            key = (self.seed, self.index)
            self._log = Log(self.arrival.curve, self.arrival.steps, key)
        return self._log

    def forget_log(self) -> None:
        self._log = None

    def advance(self, now: Seconds) -> None:
        """Train at the present rates up to now."""
        elapsed = now - self.since
        if elapsed <= 0:
            return
        if self.rate > 0:
            done = self.done + self.rate * elapsed
            if self.quality_at is None and done >= self.quality:
                self.quality_at = self.since + (self.quality - self.done) / self.rate
            self.done = done
            for r in self.replicas.values():
                r.used += r.cores * elapsed
        self.since = now

    def set_rate(self) -> None:
        """Its replicas' cores at their nodes' speeds; a gang that is not whole stands still."""
        self.rate = 0.0
        for r in self.replicas.values():
            if r.node is not None:
                self.rate += r.cores * r.node.node.speed

    def ends_at(self) -> Seconds:
        """At the present rate, which has held since `since`."""
        left = self.arrival.work - self.done
        return self.since + max(0.0, left) / self.rate if self.rate > 0 else inf

    def cost(self, costs: Costs, part: str) -> Seconds:
        """What a `save` or a `restore` takes this time (its standard deviation is for both)."""
        costs = self.arrival.costs or costs
        return self._drawn(costs, getattr(costs, part))

    def _drawn(self, costs: Costs, part: Seconds) -> Seconds:
        if costs.sd <= 0:
            return part
        if self._costs is None:
            key = (self.seed ^ 0x5EED, self.index)
            self._costs = np.random.Generator(np.random.Philox(key=key))
        return max(0.1 * part, part + costs.sd / 2**0.5 * float(self._costs.standard_normal()))


def homes(replica: ReplicaState) -> tuple[NodeState, ...]:
    """Where room is kept for it."""
    return tuple(n for n in (replica.node, replica.bound_for) if n is not None)
