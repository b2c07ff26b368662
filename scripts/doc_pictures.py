"""Draw the pictures of the documentation from simulations: `make pictures`."""

from pathlib import Path

from headway.bench.promises import ROWS, workload
from headway.policy.registry import build
from headway.report.charts.plots import Series, bars, scatter, stack, standalone
from headway.sim.build import to_scenario
from headway.sim.driver import simulate
from headway.sim.timeline import shares
from headway.sim.world import World
from headway.spec.load import read_workload

SEEDS = range(20)
MIXED = next(row for row in ROWS if row.name == "mixed, 15 jobs")


def draw(workloads: Path) -> dict[str, str]:
    """Return the content of each file. `workloads` is the repository's directory of that name."""
    scenario = to_scenario(read_workload(workloads / "ten-jobs.yaml"))
    worlds = {p: simulate(scenario, build(p), record=True) for p in ("fair", "headway")}
    return {
        "completion.svg": standalone(_completion(worlds)),
        "cpu-fair.svg": standalone(_cpu(worlds["fair"], "CPU by job under fair sharing")),
        "cpu-headway.svg": standalone(_cpu(worlds["headway"], "CPU by job under headway")),
        "nobody-loses.svg": standalone(_nobody_loses(["headway", "srpt"])),
    }


def _completion(worlds: dict[str, World]) -> str:
    names = [j.id for j in worlds["fair"].scenario.jobs]
    series: dict[str, list[float]] = {}
    for policy, world in worlds.items():
        took = {j.arrival.id: (j.finished_at or 0.0) - j.arrival.at for j in world.finished}
        series[policy] = [took[n] for n in names]
    title = "Ten training jobs on one node: completion time of each"
    return bars(names, series, y="seconds", baseline="fair", title=title)


def _cpu(world: World, title: str) -> str:
    cpu, order = shares(world), [j.id for j in world.scenario.jobs]
    series = [Series(name=n, points=cpu[n], colour=i) for i, n in enumerate(order)]
    return stack(series, x="time (s)", y="cores", title=title, capacity=1.0)


def _nobody_loses(policies: list[str]) -> str:
    """Plot the completion of every job of twenty seeds: fair sharing against each policy."""
    points: dict[str, list[tuple[float, float]]] = {p: [] for p in policies}
    for seed in SEEDS:
        scenario = to_scenario(workload(MIXED), seed=seed)
        fair = _took(simulate(scenario, build("fair")))
        for policy in policies:
            ours = _took(simulate(scenario, build(policy)))
            points[policy] += [(fair[n], ours[n]) for n in fair]
    return scatter(
        [Series(name=p, points=points[p]) for p in reversed(policies)],
        x="completion under fair sharing (s)",
        y="completion (s)",
        title="300 jobs: above the diagonal is a loser",
        diagonal=True,
    )


def _took(world: World) -> dict[str, float]:
    return {j.arrival.id: (j.finished_at or 0.0) - j.arrival.at for j in world.finished}
