"""Run a workload under several policies and seeds, with seeds in parallel processes."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from os import sched_getaffinity
from pathlib import Path
from typing import Any, TypeVar

from headway.policy.registry import build
from headway.runtime.journal import FileJournal
from headway.runtime.result import Result
from headway.sim.build import to_scenario
from headway.sim.driver import simulate
from headway.sim.scenario import Scenario
from headway.sim.summary import summary
from headway.spec.workload import Workload

R = TypeVar("R")
Progress = Callable[[int, int], None]
"""Called with (runs done, all runs)."""


def compare(
    workload: Workload,
    policies: Sequence[str],
    seeds: Sequence[int],
    *,
    path: Path | None = None,
    journal: Path | None = None,
    progress: Progress = lambda done, total: None,
) -> list[list[Result]]:
    """Return a list of results for each policy, in the order of the seeds."""
    for policy in policies:
        build(policy)  # fail on an unknown name before the first simulation
    to_scenario(workload, seed=seeds[0], path=path)  # and on an invalid workload
    tasks = [(workload, list(policies), seed, path, journal) for seed in seeds]
    by_seed: dict[int, list[Result]] = {}
    for done, (seed, results) in enumerate(in_parallel(run_seed, tasks), 1):
        by_seed[seed] = results
        progress(done * len(policies), len(tasks) * len(policies))
    return [[by_seed[seed][i] for seed in seeds] for i in range(len(policies))]


def run_seed(
    workload: Workload, policies: Sequence[str], seed: int, path: Path | None, journal: Path | None
) -> tuple[int, list[Result]]:
    """Run all policies with one seed."""
    return seed, run_all(to_scenario(workload, seed=seed, path=path), policies, journal=journal)


def run_all(
    scenario: Scenario,
    policies: Sequence[str],
    *,
    journal: Path | None = None,
    progress: Progress = lambda done, total: None,
) -> list[Result]:
    """Run a scenario under each policy; the first is the baseline of the others."""
    made = [build(policy) for policy in policies]
    results: list[Result] = []
    for done, policy in enumerate(policies):
        progress(done, len(policies))
        name = journal_name(journal, policy, policies) if journal else None
        if name:
            name.unlink(missing_ok=True)  # a simulation never continues an earlier one
        writer = FileJournal(name, durable=False, policy=policy) if name else None
        world = simulate(scenario, made[done], journal=writer)
        if writer:
            writer.close()
        results.append(summary(world, policy, results[0] if results else None))
    return results


def journal_name(journal: Path, policy: str, policies: Sequence[str]) -> Path:
    """Return the file to write; with several policies, one beside it for each."""
    return journal if len(policies) == 1 else journal.with_stem(f"{journal.stem}-{policy}")


def in_parallel(run: Callable[..., R], tasks: Sequence[tuple[Any, ...]]) -> Iterator[R]:
    """Call `run` for each task, on all cores; yield results as they are completed."""
    workers = min(len(tasks), len(sched_getaffinity(0)))
    if workers < 2:
        yield from (run(*task) for task in tasks)
        return
    # A spawned process inherits no threads and no locks.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for future in as_completed([pool.submit(run, *task) for task in tasks]):
            yield future.result()
