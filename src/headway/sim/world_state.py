"""State of the simulated nodes, jobs and replicas. Only the world changes it, in place."""

from math import inf

import numpy as np

from headway.core.estimate.step_rate import (
    CHIEF,
    SERVER,
    Speed,
    distances,
    steps_per_second,
    useful,
)
from headway.core.model.job import Job, Phase, Replica, Task
from headway.core.model.node import Node
from headway.core.model.report import Report, Usage
from headway.core.model.units import Cores, CoreSeconds, ReplicaId, Seconds
from headway.sim.curve import Log, settled_after
from headway.sim.scenario import Arrival, Costs


class SimNode:
    def __init__(self, node: Node) -> None:
        self.node, self.up, self.version = node, True, 0
        self.foreign: Cores = 0.0
        self.cores: Cores = node.capacity.cpu
        """Cores that its replicas share."""
        self.due = inf
        """When the first of its jobs ends, as in the event queue."""
        self.replicas: dict[ReplicaId, SimReplica] = {}

    def to_core(self) -> Node:
        n = self.node
        return Node(
            id=n.id,
            capacity=n.capacity,
            speed=n.speed,
            rack=n.rack,
            up=self.up,
            images=n.images,
            foreign=self.foreign,
        )

    def set_foreign(self, cores: Cores) -> None:
        """Processes outside Headway use so many cores from now on."""
        self.foreign = cores
        self.cores = self.to_core().available


class SimReplica:
    __slots__ = (
        "bound_for", "cores", "demand", "id", "job", "limit", "node", "phase", "placed_at",
        "placed_used", "reported_at", "reported_done", "reported_used", "request", "restarted",
        "task", "used", "weight",
    )  # fmt: skip

    def __init__(self, name: ReplicaId, job: "SimJob", node: SimNode, now: Seconds) -> None:
        task = job.arrival.spec.task_of(name)
        self.id, self.job, self.task, self.phase = name, job, task.name, Phase.STARTING
        self.node: SimNode | None = node
        self.bound_for: SimNode | None = None
        self.limit: Cores | None = task.limit
        self.weight, self.cores, self.used = 1.0, 0.0, 0.0
        self.demand, self.request = job.demand(task), task.request
        self.placed_at, self.placed_used = now, 0.0
        self.reported_at, self.reported_used, self.reported_done = now, 0.0, job.done
        self.restarted = False
        """Whether it was restarted since its last report."""

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

    def add_to_totals(self, now: Seconds) -> None:
        """Add what it held and used to the totals of its job, when it leaves its node."""
        job, used, request = self.job, self.used - self.placed_used, self.request
        job.held_cpu += request.cpu * (now - self.placed_at) if request.cpu else used
        if request.gpu:
            job.held_gpu += request.gpu * (now - self.placed_at)
        if not job.accounted:
            job.useful_cpu += used

    def report(self, now: Seconds) -> Report | None:
        """Return its report since the last one; None: no time has passed."""
        if now <= self.reported_at:
            return None
        job, since = self.job, self.reported_at
        steps = job.arrival.steps / job.arrival.work
        silent = job.arrival.silent
        values = None if silent else job.log().between(self.reported_done * steps, job.done * steps)
        cpu = (self.used - self.reported_used) / (now - since)
        self.reported_at, self.reported_used, self.reported_done = now, self.used, job.done
        restarted, self.restarted = self.restarted, False
        return Report(
            replica=self.id,
            since=since,
            at=now,
            step=None if silent else job.done * steps,
            value=values[0] if values else None,
            high=values[1] if values else None,
            usage=Usage(cpu=cpu),
            restarted=restarted,
        )


class SimJob:
    __slots__ = (
        "_costs", "_log", "accounted", "arrival", "done", "ends_at", "failures", "finished_at",
        "gain", "held_cpu", "held_gpu", "idle", "index", "moves", "partial", "phase", "quality",
        "quality_at", "rate", "reason", "replicas", "saved", "seed", "since", "spec", "started_at",
        "useful_cpu", "useful_gpu", "version", "wasted",
    )  # fmt: skip

    def __init__(self, arrival: Arrival, index: int, seed: int) -> None:
        self.arrival, self.index, self.seed = arrival, index, seed
        self.spec = arrival.spec
        """As it is known by now."""
        self.phase, self.reason, self.version = Phase.PENDING, "", 0
        self.done: CoreSeconds = 0.0
        self.rate, self.since = 0.0, arrival.at
        self.ends_at = inf
        """At its present rate."""
        self.saved: CoreSeconds = 0.0
        """Work in its last complete checkpoint."""
        self.wasted: CoreSeconds = 0.0
        self.started_at: Seconds | None = None
        self.finished_at: Seconds | None = None
        self.quality: CoreSeconds = arrival.work * settled_after(arrival.curve)
        self.quality_at: Seconds | None = None
        self.failures = self.moves = 0
        self.held_cpu = self.held_gpu = self.useful_cpu = self.useful_gpu = 0.0
        """What its replicas held, and the part that made progress, in core- and GPU-seconds."""
        self.gain = (0.0, 0.0)
        """Cores and GPUs that make progress now."""
        self.accounted = arrival.spec.speed is not None or arrival.spec.gpus > 0
        """Whether `useful_*` are summed up from `gain`: it has GPUs, or workers that wait."""
        self.replicas: dict[ReplicaId, SimReplica] = {}
        self.idle: dict[ReplicaId, None] = {}
        """Replicas that it had before it was requeued."""
        self.partial = False
        """Whether some replicas of its gang are not placed yet."""
        self._log: Log | None = None
        self._costs: np.random.Generator | None = None

    def to_core(self) -> Job:
        return Job(
            id=self.arrival.id,
            spec=self.spec,
            submitted_at=self.arrival.at,
            phase=self.phase,
            reason=self.reason,
            draw=(self.seed << 32) + self.index,
            truth=self.arrival.work - self.done,
        )

    def announce(self, now: Seconds) -> bool:
        """Return whether more becomes known of it now."""
        more = self.arrival.announces
        if more is None or self.spec is more.spec or self.started_at is None:
            return False
        if now < self.started_at + more.time or self.done < more.work:
            return False
        self.spec = more.spec
        return True

    def log(self) -> Log:
        if self._log is None:
            self._log = Log(self.arrival.curve, self.arrival.steps, (self.seed, self.index))
        return self._log

    def forget_log(self) -> None:
        self._log = None

    def advance(self, now: Seconds) -> None:
        """Train at the present rates until now."""
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
            if self.accounted:
                cpu, gpu = self.gain
                self.useful_cpu += cpu * elapsed
                self.useful_gpu += gpu * elapsed
        self.since = now

    def whole(self) -> bool:
        """Return whether all its replicas are placed."""
        return all(self._count(t.name) >= t.replicas for t in self.arrival.spec.tasks)

    def able(self) -> bool:
        """Return whether it can train: a synchronous job if it is complete, an asynchronous one
        with its chief, its parameter servers and any worker.
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

    def demand(self, task: Task) -> Cores:
        """Return the most cores that a replica can use; a parameter server at most its request."""
        if task.name == SERVER and task.request.cpu and self.arrival.spec.speed is not None:
            return min(task.request.cpu, self.arrival.demand)
        return self.arrival.demand

    def set_rate(self) -> None:
        """Set the rate by its step costs, if known; otherwise from its replicas' cores."""
        if self.arrival.spec.speed is not None:
            self._set_rate_by_steps(self.arrival.spec.speed)
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

    def _set_rate_by_steps(self, speed: Speed) -> None:
        """Also set `gain` by the useful fraction of each worker; a server's is their mean."""
        there = self.replicas.values()
        running = [(r, r.node.node) for r in there if r.phase is Phase.RUNNING and r.node]
        workers = [(r.cores, node) for r, node in running if r.task != SERVER]
        servers = [node for r, node in running if r.task == SERVER]
        far = distances(speed, [node for _, node in workers], servers)
        rates = [(cores * node.speed, d) for (cores, node), d in zip(workers, far, strict=True)]
        steps = steps_per_second(speed, rates, len(servers))
        self.rate = steps * self.arrival.work / self.arrival.steps
        parts = useful(speed, rates, len(servers))
        given, mean = iter(parts), sum(parts) / len(parts) if parts else 0.0
        cpu = gpu = 0.0
        for r, _ in running:
            part = mean if r.task == SERVER else next(given)
            cpu += part * r.cores
            gpu += part * r.request.gpu
        self.gain = cpu, gpu

    def stop(self) -> None:
        """Stop training; pending events of the job are outdated."""
        self.rate, self.ends_at = 0.0, inf
        self.version += 1

    def cost(self, costs: Costs, part: str) -> Seconds:
        """Draw the time of a `save` or `restore` (the standard deviation is for both together)."""
        costs = self.arrival.costs or costs
        mean: Seconds = getattr(costs, part)
        if costs.sd <= 0:
            return mean
        if self._costs is None:
            key = (self.seed ^ 0x5EED, self.index)
            self._costs = np.random.Generator(np.random.Philox(key=key))
        return max(0.1 * mean, mean + costs.sd / 2**0.5 * float(self._costs.standard_normal()))
