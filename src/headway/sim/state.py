"""What the world keeps of each node, job and replica. Changed in place, by the world alone."""

from math import inf

import numpy as np

from headway.core.job import Job, Phase, Replica, task_of
from headway.core.node import Node
from headway.core.report import Report, Usage
from headway.core.speed import CHIEF, SERVER, Worker, distances, steps_per_second
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
        "bound_for", "cores", "demand", "heard_at", "heard_done", "heard_used", "id", "job",
        "limit", "node", "phase", "task", "used", "weight",
    )  # fmt: skip

    def __init__(self, name: ReplicaId, job: "JobState", node: NodeState, now: Seconds) -> None:
        self.id, self.job, self.task, self.phase = name, job, task_of(name), Phase.STARTING
        self.node: NodeState | None = node
        self.bound_for: NodeState | None = None
        self.limit: Cores | None = job.arrival.spec.task(self.task).limit
        self.weight, self.cores, self.used = 1.0, 0.0, 0.0
        self.demand = job.demand(self.task)
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
        "_costs", "_log", "arrival", "done", "finished_at", "idle", "index", "moves", "partial",
        "phase", "quality", "quality_at", "rate", "reason", "replicas", "saved", "seed", "since",
        "started_at", "tries", "version", "wasted",
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
        self.idle: dict[ReplicaId, None] = {}
        """Replicas that it had before it was sent back into the queue."""
        self.partial = False
        """Not all of its gang has a place yet."""
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

    def whole(self) -> bool:
        """Has every replica that it asks for a place?"""
        return all(self._count(t.name) >= t.replicas for t in self.arrival.spec.tasks)

    def able(self) -> bool:
        """Can it train? A synchronous job when it is whole, an asynchronous one with its chief,
        its parameter servers and any worker.
        """
        if not self.partial:
            return True
        speed, tasks = self.arrival.spec.speed, self.arrival.spec.tasks
        if speed is None or speed.waits:
            return False
        needed = [t for t in tasks if t.name in (SERVER, CHIEF)]
        others = [t for t in tasks if t.name not in (SERVER, CHIEF)]
        return all(self._count(t.name) >= t.replicas for t in needed) and (
            not others or any(self._count(t.name) for t in others)
        )

    def _count(self, task: str) -> int:
        return sum(r.task == task for r in self.replicas.values())

    def demand(self, task: str) -> Cores:
        """The most cores that one replica can use: a parameter server no more than it asks for."""
        if task == SERVER and self.arrival.spec.speed is not None:
            asked = self.arrival.spec.task(task).request.cpu
            return min(asked, self.arrival.demand) if asked else self.arrival.demand
        return self.arrival.demand

    def set_rate(self) -> None:
        """By its speed, where that is known; else its replicas' cores at their nodes' speeds."""
        if self.arrival.spec.speed is not None:
            steps = steps_per_second(self.arrival.spec.speed, *self._crew())
            self.rate = steps * self.arrival.work / self.arrival.steps
            return
        self.rate = 0.0
        for r in self.replicas.values():
            if r.node is not None:
                self.rate += r.cores * r.node.node.speed

    def _crew(self) -> tuple[list[Worker], int]:
        """Its workers as they are, and how many parameter servers it has."""
        speed = self.arrival.spec.speed
        running = [r for r in self.replicas.values() if r.phase is Phase.RUNNING and r.node]
        workers = [(r.cores, r.node.node) for r in running if r.task != SERVER and r.node]
        servers = [r.node.node for r in running if r.task == SERVER and r.node]
        assert speed is not None  # noqa: S101 - the type checker's
        far = distances(speed, [node for _, node in workers], servers)
        crew = [(cores * node.speed, d) for (cores, node), d in zip(workers, far, strict=True)]
        return crew, len(servers)

    def ends_at(self) -> Seconds:
        """At the present rate, which has held since `since`."""
        left = self.arrival.work - self.done
        return self.since + max(0.0, left) / self.rate if self.rate > 0 else inf

    def cost(self, costs: Costs, part: Seconds) -> Seconds:
        """What a save or a restore takes this time (its standard deviation is for both)."""
        if costs.sd <= 0:
            return part
        if self._costs is None:
            key = (self.seed ^ 0x5EED, self.index)
            self._costs = np.random.Generator(np.random.Philox(key=key))
        return max(0.1 * part, part + costs.sd / 2**0.5 * float(self._costs.standard_normal()))


def homes(replica: ReplicaState) -> tuple[NodeState, ...]:
    """Where room is kept for it."""
    return tuple(n for n in (replica.node, replica.bound_for) if n is not None)
