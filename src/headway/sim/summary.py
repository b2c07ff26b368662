"""Results of a simulation."""

from headway.runtime.foreign_use import foreign_line, mean_until
from headway.runtime.result import Held, JobResult, Result, summarise
from headway.sim.world import World
from headway.sim.world_state import SimJob


def summary(world: World, policy: str, baseline: Result | None) -> Result:
    jobs = tuple(_job(j) for j in sorted(world.finished, key=lambda j: j.index))
    return summarise(
        jobs,
        policy=policy,
        backend="sim",
        seed=world.scenario.seed,
        used=sum(j.done + j.wasted for j in world.finished),
        capacity=sum(n.node.capacity.cpu * n.node.speed for n in world.nodes.values()),
        quality=[j.quality_at - j.arrival.at for j in world.finished if j.quality_at is not None],
        held=_held(world),
        foreign=mean_until(foreign_line(world.hosts.foreign), max(j.finished_s for j in jobs)),
        baseline=baseline,
    )


def _held(world: World) -> Held:
    """Averages from the first submission to the last finish."""
    jobs = world.finished
    time = max(j.finished_at or 0.0 for j in jobs) - min(j.arrival.at for j in jobs)
    cores = time * sum(n.node.capacity.cpu for n in world.nodes.values())
    gpus = time * sum(n.node.capacity.gpu for n in world.nodes.values())
    return Held(
        cpu_allocated=sum(j.held_cpu for j in jobs) / cores if cores else None,
        cpu_useful=sum(j.useful_cpu for j in jobs) / cores if cores else None,
        gpu_allocated=sum(j.held_gpu for j in jobs) / gpus if gpus else None,
        gpu_useful=sum(j.useful_gpu for j in jobs) / gpus if gpus else None,
        deadlocks=world.deadlocks,
    )


def _job(j: SimJob) -> JobResult:
    return JobResult(
        name=j.arrival.id,
        submitted_s=j.arrival.at,
        started_s=j.started_at,
        finished_s=j.arrival.at if j.finished_at is None else j.finished_at,
        steps=j.arrival.steps * j.done / j.arrival.work,
        moves=j.moves,
        outcome=j.phase.value,
    )
