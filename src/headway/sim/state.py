"""What the world keeps of each node, job and replica. Changed in place, by the world alone."""

from collections.abc import Sequence
from math import inf

import numpy as np

from headway.core.estimate.step_rate import (
    CHIEF,
    SERVER,
    Speed,
    Worker,
    distances,
    steps_per_second,
    useful,
)
from headway.core.model.job import Job, Phase, Replica
from headway.core.model.node import Node
from headway.core.model.report import Report, Usage
from headway.core.model.units import Cores, CoreSeconds, ReplicaId, Seconds, Share
from headway.sim.curve import Log, settled_after
from headway.sim.scenario import Arrival, Costs


class NodeState:
    __slots__ = ("due", "node", "replicas", "up", "version")

    def __init__(self, node: Node) -> None:
        self.node, self.up, self.version = node, True, 0
        self.due = inf
        """When the first of its jobs ends, as it stands on the agenda."""
        self.replicas: dict[ReplicaId, ReplicaState] = {}

    def to_core(self) -> Node:
        n = self.node
        return Node(id=n.id, capacity=n.capacity, speed=n.speed, rack=n.rack, up=self.up)


class ReplicaState:
    __slots__ = (
        "bound_for", "came_at", "came_used", "cores", "demand", "heard_at", "heard_done",
        "heard_used", "id", "job", "limit", "node", "phase", "request", "task", "used", "weight",
    )  # fmt: skip

    def __init__(self, name: ReplicaId, job: "JobState", node: NodeState, now: Seconds) -> None:
        self.id, self.job, self.task, self.phase = name, job, name.task, Phase.STARTING
        self.node: NodeState | None = node
        self.bound_for: NodeState | None = None
        self.limit: Cores | None = job.arrival.spec.task(self.task).limit
        self.weight, self.cores, self.used = 1.0, 0.0, 0.0
        self.demand, self.request = job.demand(self.task), job.arrival.spec.task(self.task).request
        self.came_at, self.came_used = now, 0.0
        self.heard_at, self.heard_used, self.heard_done = now, 0.0, job.done

    def to_core(self) -> Replica:
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

    def left(self, now: Seconds) -> None:
        """It gives its room back: note what it held, and of what it used what was useful."""
        job, used, asked = self.job, self.used - self.came_used, self.request
        job.held_cpu += asked.cpu * (now - self.came_at) if asked.cpu else used
        if asked.gpu:
            job.held_gpu += asked.gpu * (now - self.came_at)
        if not job.paced:
            job.useful_cpu += used

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
        "_costs", "_log", "arrival", "done", "ends_at", "finished_at", "gain", "held_cpu",
        "held_gpu", "idle", "index",
        "moves", "paced", "partial", "phase", "quality", "quality_at", "rate", "reason",
        "replicas", "saved", "seed", "since", "started_at", "tries", "useful_cpu",
        "useful_gpu", "version",
        "wasted",
    )  # fmt: skip

    def __init__(self, arrival: Arrival, index: int, seed: int) -> None:
        self.arrival, self.index, self.seed = arrival, index, seed
        self.phase, self.reason, self.version = Phase.PENDING, "", 0
        self.done: CoreSeconds = 0.0
        self.rate, self.since = 0.0, arrival.at
        self.ends_at = inf
        """At the present rate."""
        self.saved: CoreSeconds = 0.0
        """Work in its last complete checkpoint."""
        self.wasted: CoreSeconds = 0.0
        self.started_at: Seconds | None = None
        self.finished_at: Seconds | None = None
        self.quality: CoreSeconds = arrival.work * settled_after(arrival.curve)
        self.quality_at: Seconds | None = None
        self.tries = self.moves = 0
        self.held_cpu = self.held_gpu = self.useful_cpu = self.useful_gpu = 0.0
        """What its replicas held, and what of it made progress, in core- and GPU-seconds."""
        self.gain = (0.0, 0.0)
        """Cores and GPUs that make progress at present."""
        self.paced = arrival.spec.speed is not None or arrival.spec.gpus > 0
        """Not all that it uses need be useful, or it has GPUs: keep account of it."""
        self.replicas: dict[ReplicaId, ReplicaState] = {}
        self.idle: dict[ReplicaId, None] = {}
        """Replicas that it had before it was sent back into the queue."""
        self.partial = False
        """Not all of its gang has a place yet."""
        self._log: Log | None = None
        self._costs: np.random.Generator | None = None

    def to_core(self) -> Job:
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
            if self.paced:
                cpu, gpu = self.gain
                self.useful_cpu += cpu * elapsed
                self.useful_gpu += gpu * elapsed
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
        speed = self.arrival.spec.speed
        if speed is not None:
            crew, servers = self._crew(speed)
            steps = steps_per_second(speed, crew, servers)
            self.rate = steps * self.arrival.work / self.arrival.steps
            self._gain(useful(speed, crew, servers))
        else:
            rate = cpu = gpu = 0.0
            for r in self.replicas.values():
                if r.node is not None:
                    rate += r.cores * r.node.node.speed
                    cpu += r.cores
                    gpu += r.request.gpu
            self.rate, self.gain = rate, (cpu, gpu)
        left = max(0.0, self.arrival.work - self.done)
        self.ends_at = self.since + left / self.rate if self.rate > 0 else inf

    def stop(self) -> None:
        """It does not train, and what was planned for it is off."""
        self.rate, self.ends_at = 0.0, inf
        self.version += 1

    def _gain(self, parts: Sequence[Share]) -> None:
        """Of its workers' cores and GPUs, these parts make progress; a parameter server is as
        useful as its workers are on average.
        """
        given, mean = iter(parts), sum(parts) / len(parts) if parts else 0.0
        cpu = gpu = 0.0
        for r in self.replicas.values():
            if r.phase is Phase.RUNNING and r.node is not None:
                part = mean if r.task == SERVER else next(given)
                cpu += part * r.cores
                gpu += part * r.request.gpu
        self.gain = cpu, gpu

    def _crew(self, speed: Speed) -> tuple[list[Worker], int]:
        """Its workers as they are, and how many parameter servers it has."""
        running = [r for r in self.replicas.values() if r.phase is Phase.RUNNING and r.node]
        workers = [(r.cores, r.node.node) for r in running if r.task != SERVER and r.node]
        servers = [r.node.node for r in running if r.task == SERVER and r.node]
        far = distances(speed, [node for _, node in workers], servers)
        crew = [(cores * node.speed, d) for (cores, node), d in zip(workers, far, strict=True)]
        return crew, len(servers)

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
