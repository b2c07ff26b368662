"""A simulated world at its end, as figures."""

from headway.runtime.result import JobResult, Result, summarise
from headway.sim.state import JobState
from headway.sim.world import World


def summary(world: World, policy: str, baseline: Result | None) -> Result:
    return summarise(
        tuple(_job(j) for j in sorted(world.finished, key=lambda j: j.index)),
        policy=policy,
        backend="sim",
        seed=world.scenario.seed,
        used=sum(j.done + j.wasted for j in world.finished),
        capacity=sum(n.node.capacity.cpu * n.node.speed for n in world.nodes.values()),
        quality=[j.quality_at - j.arrival.at for j in world.finished if j.quality_at is not None],
        baseline=baseline,
    )


def _job(j: JobState) -> JobResult:
    return JobResult(
        name=j.arrival.id,
        submitted_s=j.arrival.at,
        started_s=j.started_at,
        finished_s=j.arrival.at if j.finished_at is None else j.finished_at,
        steps=j.arrival.steps * j.done / j.arrival.work,
        moves=j.moves,
        outcome=j.phase.value,
    )
