"""Draw the pictures of the documentation from simulations: `make pictures`."""

import re
from collections.abc import Sequence
from pathlib import Path

from headway.bench.promises import ROWS, workload
from headway.policy.registry import build
from headway.report.charts.axes import Plane, chart, empty_chart, extent, plane
from headway.report.charts.bars import bars
from headway.report.charts.curves import MANY, path
from headway.report.charts.elements import Point, circle, coord, number
from headway.report.charts.plots import Series, drawable, legend_keys, stack
from headway.report.charts.style import LIGHT, rules
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
        scenario = to_scenario(workload(MIXED, MIXED.jobs[0]), seed=seed)
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


def scatter(
    series: Sequence[Series], *, x: str, y: str, title: str = "", diagonal: bool = False
) -> str:
    """Return a scatter plot; with ``diagonal`` both axes have one range, and x = y is drawn."""
    clean = drawable(series)
    if not clean:
        return empty_chart(title)
    xs = extent(at for s in clean for at, _ in s.points)
    ys = extent(v for s in clean for _, v in s.points)
    if diagonal:
        xs = ys = min(xs[0], ys[0]), max(xs[1], ys[1])
    pad = (xs[1] - xs[0]) * 0.03
    on = plane(
        title=title,
        entries=legend_keys(clean, "dot"),
        names=(x, y),
        xs=(xs[0] - pad, xs[1] + pad),
        ys=ys,
        height=360,
    )
    parts = []
    if diagonal:
        ends = [on.at(v, v) for v in (max(on.x.low, on.y.low), min(on.x.high, on.y.high))]
        parts.append(f'<path class="limit" d="{path(ends)}"/>')
    parts += [_dot(on, s, at, (x, y)) for s in clean for at in _distinct(on, s.points)]
    return chart(on.area, parts, title or f"{y} against {x}")


def _distinct(on: Plane, points: Sequence[Point]) -> list[Point]:
    """Return the points; if there are very many, one for each pixel."""
    if len(points) <= MANY:
        return list(points)
    cells = {(round(on.x.at(x)), round(on.y.at(y))): (x, y) for x, y in points}
    return list(cells.values())


def _dot(on: Plane, s: Series, at: Point, names: tuple[str, str]) -> str:
    hover = f"{s.name}\n{names[0]}: {number(at[0])}\n{names[1]}: {number(at[1])}".lstrip("\n")
    return circle(f"dot f{s.colour}", *on.at(*at), 4, hover)


def standalone(svg: str) -> str:
    """Return the chart as a complete SVG file with light colours and a background."""
    used = {int(i) for i in re.findall(r'class="[^"]*\b[fso](\d+)\b', svg)}
    style = re.sub(r"var\(--(\w+)\)", lambda found: LIGHT[found[1]], rules(sorted(used)))
    opening, rest = svg.split(">", 1)
    wide, high = (float(v) for v in re.findall(r'viewBox="0 0 (\S+) (\S+)"', opening)[0])
    edge = 16
    width, height = coord(wide + 2 * edge), coord(high + 2 * edge)
    size = f'width="{width}" height="{height}" viewBox="{-edge} {-edge} {width} {height}"'
    opening = re.sub(r'width=.*viewBox="[^"]*"', size, opening)
    back = f'<rect x="{-edge}" y="{-edge}" width="100%" height="100%" fill="{LIGHT["surface"]}"/>'
    header = '<?xml version="1.0" encoding="UTF-8"?>\n'
    return f"{header}{opening}>\n<style>{style}</style>\n{back}{rest}\n"
