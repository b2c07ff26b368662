"""Run a simulation: jump to the next event, or to the time at which the policy wakes."""

from math import inf
from typing import Any

from headway.core.cycle.policy import Policy
from headway.core.model.snapshot import Trigger
from headway.errors import ConfigError
from headway.runtime.garbage import no_collector
from headway.runtime.journal import Journal
from headway.runtime.loop import Loop
from headway.sim.scenario import Scenario
from headway.sim.world import World

MOST_IDLE = 10_000
"""Ticks in a row without further events, after which a run is given up."""


def simulate(
    scenario: Scenario,
    policy: Policy[Any],
    *,
    journal: Journal | None = None,
    record: bool = False,
    most_idle: int = MOST_IDLE,
) -> World:
    """Run a scenario to its end; return the world with its results."""
    world = World(scenario, reports=policy.listens, record=record)
    loop = Loop(world, policy, journal or Journal())
    with no_collector():  # a run makes no reference cycles, and it costs a seventh
        _run(world, loop, most_idle)
    return world


def _run(world: World, loop: Loop[Any], most_idle: int) -> None:
    wake, idle = inf, 0
    while not world.over:
        event = world.next_at()
        if event == wake == inf or idle > most_idle:
            raise _stuck(world)
        if event <= wake:
            trigger = world.jump()
            idle = idle + 1 if world.stalled else 0
        else:
            world.now, trigger, idle = wake, Trigger.TICK, idle + (event == inf)
        after = loop.step(trigger)
        wake = inf if after is None else world.now + after


def _stuck(world: World) -> ConfigError:
    waiting = ", ".join(list(world.jobs)[:3])
    return ConfigError(
        f"{len(world.jobs)} pending jobs never fit, for example {waiting}",
        hint="give the nodes more CPU, memory or GPUs, or request less",
    )
