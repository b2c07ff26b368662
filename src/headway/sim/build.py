"""Build a scenario from a validated workload."""

from dataclasses import replace
from itertools import pairwise
from math import isfinite
from pathlib import Path
from random import Random

from headway.core.model.job import Estimate, Expected, JobSpec, holding
from headway.core.model.node import Node
from headway.core.model.units import JobId, NodeId
from headway.errors import ConfigError, UnknownName
from headway.sim.curve import Curve, bent
from headway.sim.scenario import Announcement, Arrival, Costs, Failure, ForeignLoad, Scenario
from headway.spec.arrivals import expand
from headway.spec.bounded_file import csv_rows, read_lines
from headway.spec.capacity_check import refuse_too_large
from headway.spec.catalogue import profile_of
from headway.spec.load import read_manifest
from headway.spec.manifest import Checkpoint, TrainingJobSpec
from headway.spec.node_spec import ForeignDistribution, NodeSpec
from headway.spec.platform_features import refuse_unsupported
from headway.spec.profile import CurveSpec, Profile
from headway.spec.speed import SpeedSpec
from headway.spec.workload import CostSpec, JobEntry, Sizes, Workload

SIMULATED = frozenset({"envFrom", "mounts", "podTemplate", "ttlSecondsAfterFinished"})
"""Fields that not every platform supports, and that do not change how long jobs take."""


def to_scenario(
    workload: Workload, *, seed: int | None = None, path: Path | None = None
) -> Scenario:
    """`path`: the file of the workload; files that it names are relative to it."""
    where = str(path) if path else "workload"
    written = expand(workload, seed, where=where)
    nodes = written.to_nodes()
    beside = path.parent if path else Path()
    dice = Random(f"sizes/{written.seed}")
    jobs = tuple(_arrival(written, job, beside, where, dice) for job in written.jobs)
    refuse_too_large({job.id: job.spec for job in jobs}, nodes, where)
    return Scenario(
        nodes=nodes,
        jobs=jobs,
        costs=_costs(written.costs),
        sharing=written.sharing,
        contention=written.contention,
        oversubscription=written.oversubscription,
        failures=_failures(written, nodes, jobs, where),
        foreign=tuple(_foreign(n, spec) for n, spec in written.node_specs() if spec.foreign),
        seed=written.seed,
    )


def _arrival(workload: Workload, job: JobEntry, beside: Path, where: str, dice: Random) -> Arrival:
    profile = job.measured or job.profile
    if profile is None and job.model:
        profile = profile_of(workload, job.model)
    if profile is None:
        raise ConfigError(
            f"job {job.name!r} has no profile, so it cannot be simulated",
            where=where,
            hint="let `headway calibrate` measure it, or give it `profile: {work: …}` (Workload)",
        )
    spec = _spec(job, profile, beside, where, workload.sizes, dice)
    announces = None
    if job.knows != "all":
        announced = replace(spec, expected=None, total_steps=profile.steps)
        spec = replace(announced, total_steps=None)
        if job.knows != "nothing":
            part = job.knows.part * profile.work
            announces = Announcement(spec=announced, time=job.knows.time, work=part)
    return Arrival(
        id=JobId(job.name),
        at=job.at,
        spec=spec,
        work=profile.work,
        demand=profile.demand,
        steps=profile.steps,
        curve=to_curve(profile.curve, profile.steps, beside),
        silent=workload.sizes.nothing,
        costs=_own(profile, workload.costs),
        announces=announces,
    )


def _costs(given: CostSpec) -> Costs:
    return Costs(
        save=given.save_s, restore=given.restore_s, sd=given.cost_sd_s, rescale=given.rescale_s,
        start=given.start_s,
    )  # fmt: skip


def _own(profile: Profile, general: CostSpec) -> Costs | None:
    """Return the costs of this job, if its profile has some."""
    own = {k: v for k in ("save_s", "restore_s") if (v := getattr(profile, k)) is not None}
    return _costs(general.model_copy(update={**own, "cost_sd_s": 0.0})) if own else None


def _spec(
    job: JobEntry, profile: Profile, beside: Path, where: str, sizes: Sizes, dice: Random
) -> JobSpec:
    manifest = job.spec
    if job.manifest:
        manifest = read_manifest(beside / job.manifest).spec
        if profile.speed is not None:
            _suits(profile.speed, manifest, job, beside)
    if manifest is None:  # simulated jobs save checkpoints unless the manifest says otherwise
        tasks = {"tasks": job.distributed_tasks} if job.distributed_tasks else {}
        manifest = TrainingJobSpec(checkpoint=Checkpoint(mode="sdk"), **tasks)
    refuse_unsupported(manifest, SIMULATED, job=job.name, where=where)
    expected = _known(profile, sizes, dice)
    core = manifest.to_core(kind=job.model or job.manifest, expected=expected)
    core = holding(core, profile.memory)
    if profile.speed is not None:
        core = replace(core, speed=profile.speed.to_core())
    all_known = sizes == Sizes() and core.total_steps is None
    return replace(core, total_steps=profile.steps) if all_known else core


def _suits(speed: SpeedSpec, manifest: TrainingJobSpec, job: JobEntry, beside: Path) -> None:
    try:
        speed.check_tasks([t.name for t in manifest.tasks], job.name)
    except ValueError as error:
        raise ConfigError(str(error), where=str(beside / job.manifest)) from None


def _known(profile: Profile, sizes: Sizes, dice: Random) -> Expected | None:
    work, error = profile.work, 0.0
    if sizes.wrong is not None:
        work, error = work * sizes.wrong ** dice.uniform(-1, 1), sizes.wrong - 1
    elif sizes.earlier is not None:
        work, error = work * dice.uniform(1 - sizes.earlier, 1 + sizes.earlier), sizes.earlier
    elif sizes.curves or sizes.nothing:
        return None
    return Expected(work=Estimate(value=work, error=error), demand=profile.demand)


def to_curve(spec: CurveSpec, steps: float, beside: Path) -> Curve:
    if spec.file:
        return _measured(beside / spec.file, spec.noise, steps)
    return Curve(
        shape=spec.shape,
        bend=bent(spec.shape, spec.at20, spec.power),
        power=spec.power,
        start=spec.start,
        end=spec.end,
        noise=spec.noise,
    )


def _measured(path: Path, noise: float, steps: float) -> Curve:
    """Read a CSV file of step and value; a first line without numbers is a header."""
    rows = csv_rows(read_lines(path, "the loss curve"), str(path))
    points = [p for i, row in rows if (p := _point(row, f"{path}:{i}", header=i == 1))]
    if len(points) < 2 or points[0][1] == points[-1][1]:
        raise ConfigError(
            "a curve needs two points and a change", where=str(path), hint="columns: step, value"
        )
    if any(b[0] <= a[0] for a, b in pairwise(points)):
        raise ConfigError("steps must increase from line to line", where=str(path))
    last = max(steps, points[-1][0])
    scaled = tuple((step / last, value) for step, value in points)
    return Curve(
        shape="measured", start=points[0][1], end=points[-1][1], noise=noise, points=scaled
    )


def _point(row: list[str], where: str, *, header: bool) -> tuple[float, float] | None:
    try:
        step, value = float(row[0]), float(row[1])
    except (ValueError, IndexError):
        if header:
            return None
        raise ConfigError(
            f"expected two numbers, step and value, not {','.join(row)!r}", where=where
        ) from None
    if not (isfinite(step) and isfinite(value)):
        raise ConfigError(
            "a curve must not contain NaN or infinity", where=where, hint="remove this line"
        )
    return step, value


def _failures(
    workload: Workload, nodes: tuple[Node, ...], jobs: tuple[Arrival, ...], where: str
) -> tuple[Failure, ...]:
    out = []
    for f in workload.failures:
        if f.node and f.node not in {n.id for n in nodes}:
            raise UnknownName("node", f.node, [n.id for n in nodes], where=where)
        if f.job and f.job not in {j.id for j in jobs}:
            raise UnknownName("job", f.job, [j.id for j in jobs], where=where)
        node, job = NodeId(f.node) if f.node else None, JobId(f.job) if f.job else None
        out.append(Failure(at=f.at, node=node, job=job, lasts=f.lasts))
    return tuple(out)


def _foreign(node: NodeId, spec: NodeSpec) -> ForeignLoad:
    if isinstance(spec.foreign, ForeignDistribution):
        least, most = (part * spec.cpu for part in spec.foreign.between)
        return ForeignLoad(node=node, between=(least, most), every=spec.foreign.every_s)
    given = sorted((step.at, step.cpu) for step in spec.foreign)
    return ForeignLoad(node=node, given=tuple(given))
