"""The same jobs under two policies in turn, and the page about it."""

from dataclasses import replace

import pytest

from headway.demo import (
    Progress,
    alternate,
    compare,
    describe,
    fit_distributed,
    fit_workload,
    median_run,
    write_demo,
)
from headway.runtime.result import JobResult, summarise
from headway.spec.load import read_workload
from headway.trainings import UPDATES_PER_SECOND
from headway.trainings.probe import Speed, probe


def result(policy, *times, used=0.98):
    jobs = [
        JobResult(name=f"j{i}", submitted_s=0.0, started_s=0.0, finished_s=t, steps=1, moves=0,
                  outcome="succeeded")
        for i, t in enumerate(times)
    ]  # fmt: skip
    made = summarise(tuple(jobs), policy=policy, backend="local", seed=0, used=1.0, capacity=1.0)
    return replace(made, utilization=used)


def test_the_description_and_the_table_are_about_the_median_of_each_job():
    fair = [result("fair", 90, 90), result("fair", 20, 40), result("fair", 10, 10)]
    ours = [result("headway", 10, 40), result("headway", 1, 1), result("headway", 99, 99)]
    assert (median_run(fair), median_run(ours)) == (1, 0)
    found = compare([fair, ours])
    assert describe(found) == (
        "Under headway, the 2 jobs finished 17% earlier on average than under fair, and no job "
        "finished later by more than 400.0% + 1 s (noise band: runs under fair differ by up "
        "to 400.0%)."
    )
    before, after = found.typical
    assert (before.mean_completion_s, after.mean_completion_s) == (30, 25)
    assert after.slower == 0


def test_a_job_that_the_sentence_calls_later_is_slower_in_the_table():
    fair = [result("fair", 100, 100), result("fair", 104, 100)]
    ours = [result("headway", 50, 120), result("headway", 50, 104)]
    found = compare([fair, ours])
    assert found.noise == pytest.approx(4 / 102)
    assert "and j1 finished later by more than 3.9% + 1 s (noise band" in describe(found)
    assert (found.typical[1].slower, found.typical[1].worst_ratio) == (1, pytest.approx(1.12))
    within = compare([fair, [result("headway", 50, 104), result("headway", 50, 104)]])
    assert "no job finished later by more than 3.9% + 1 s" in describe(within)
    assert within.typical[1].slower == 0


def test_a_disturbed_comparison_says_so():
    fair, ours = [result("fair", 20)], [result("headway", 30, used=0.75)]
    text = describe(compare([fair, ours]))
    assert "50% later" in text
    assert "and j0 finished later by more than 1.0% + 1 s. " in text
    assert text.endswith(
        "Other programs took 25% of the CPU in a run: the comparison is unreliable."
    )
    idle = [result("flowcon:paper", 30, used=0.5)]
    assert "Other programs" not in describe(compare([fair, idle])), "its limits leave the core idle"


def test_a_comparison_of_distributed_jobs_is_disturbed_by_other_programs(monkeypatch):
    monkeypatch.setattr("headway.demo.sched_getaffinity", lambda _: {0, 1})
    before, after = result("spread", 20, used=0.3), result("dragon", 30, used=0.3)
    idle = compare([[before], [replace(after, foreign_cores=0.2)]], fills=False)
    assert "Other programs" not in describe(idle)
    busy = compare([[before], [replace(after, foreign_cores=1.0)]], fills=False)
    assert "Other programs took 50% of the CPU in a run" in describe(busy)


def test_a_job_is_shown_to_gain_only_if_it_does():
    fair = [result("fair", 20.0, 30.0)]
    assert "gained" not in describe(compare([fair, [result("headway", 25.0, 40.0)]]))
    assert "gained" not in describe(compare([fair, [result("headway", 19.5, 40.0)]]))
    assert "j0 gained most: 10 s instead of 20 s." in describe(
        compare([fair, [result("headway", 10.0, 40.0)]])
    )


def test_the_page_shows_the_median_runs(tmp_path, workload):
    path = workload("jobs: [{name: x, spec: {tasks: [{command: [sleep, '0.1']}]}}]\n")
    results, folders = alternate(path, ["fair", "headway"], 2, tmp_path / "data")
    assert [len(each) for each in folders] == [2, 2]
    write_demo(tmp_path / "demo.html", results, folders, path)
    page = (tmp_path / "demo.html").read_text()
    assert "Medians of each job over 2 runs." in page
    assert "2 runs of each; charts show the median run" in page


def test_no_further_pair_of_runs_begins_when_the_time_is_over(tmp_path, workload):
    path = workload("jobs: [{name: x, spec: {tasks: [{command: [sleep, '0.1']}]}}]\n")
    results, _ = alternate(path, ["fair", "headway"], 3, tmp_path / "data", most=0.1)
    assert [len(each) for each in results] == [1, 1]


@pytest.mark.parametrize("factor", [0.25, 1.0, 3.0])
def test_the_jobs_take_the_same_time_on_any_machine(factor, tmp_path):
    each = fit_workload(tmp_path / "demo.yaml", speed(factor))
    assert 4 * each < 150, "two and a half minutes"
    jobs = read_workload(tmp_path / "demo.yaml").jobs
    work = [j.profile.work / factor for j in jobs]
    assert work == pytest.approx([19 / 23 * w for w in (8, 5.5, 2.5, 3, 4)], rel=0.02)


def test_on_a_machine_that_others_use_the_jobs_are_smaller(tmp_path):
    assert fit_workload(tmp_path / "demo.yaml", speed(1.0, share=0.9)) == pytest.approx(22 / 0.9)
    assert fit_workload(tmp_path / "demo.yaml", speed(1.0, share=0.25)) == 35
    jobs = read_workload(tmp_path / "demo.yaml").jobs
    total = sum(j.profile.work for j in jobs)
    assert (total + 3) / 0.25 == pytest.approx(35, rel=0.02)


def speed(factor, share=1.0):
    return Speed({name: factor * rate for name, rate in UPDATES_PER_SECOND.items()}, share)


def test_the_speed_of_each_training_is_measured():
    found = probe(0.01)
    assert found.updates.keys() == UPDATES_PER_SECOND.keys()
    assert all(rate > 0 for rate in found.updates.values())
    assert 0 < found.share <= 1


def test_the_time_left_follows_the_runs_that_have_ended():
    progress = Progress(runs=4, each=30.0)
    progress.next()
    assert "run 1 of 4, about 2:00 left" in progress.show(0.0)
    progress.show(50.0)
    assert progress.left == 90, "longer than expected"
    progress.next()
    assert progress.show(0.0) == "█████···············  run 2 of 4, about 2:30 left"


# -- distributed jobs ------------------------------------------------------------------------------


def test_two_of_the_three_distributed_jobs_fill_four_nodes(tmp_path):
    each = fit_distributed(tmp_path / "d.yaml", speed(1.0))
    found = read_workload(tmp_path / "d.yaml")
    nodes = found.to_nodes()
    assert (len(nodes), each) == (4, 22)
    assert {j.model for j in found.jobs} == {"ps-sync", "ps-async"}
    for entry in found.jobs:
        _, workers = entry.distributed_tasks
        assert (workers.least, workers.replicas, workers.most) == (1, 2, 4)
        assert 0.5 < workers.resources.requests.cpu / nodes[0].capacity.cpu < 1
        alone = entry.profile.work / (workers.replicas * entry.profile.demand)
        assert 2 * alone < each, "under spread, the third begins when another has ended"


def test_distributed_jobs_take_the_same_time_on_any_machine(tmp_path):
    works = []
    for factor, share in ((1.0, 1.0), (3.0, 1.0), (1.0, 0.25)):
        fit_distributed(tmp_path / "d.yaml", speed(factor, share))
        works.append(sum(j.profile.work for j in read_workload(tmp_path / "d.yaml").jobs))
    assert works[1] == pytest.approx(3 * works[0])
    assert works[2] < works[0], "others use the machine"


def test_each_policy_is_compared_with_the_first():
    results = [
        [result(name, t, used=0.5)]
        for name, t in zip(("a", "fair", "c"), (30, 20, 60), strict=True)
    ]
    said = describe(compare(results, fills=False))
    assert "Under fair, the 1 jobs finished 33% earlier on average than under a" in said
    assert "Under c, the 1 jobs finished 100% later on average than under a" in said
    assert "Other programs" not in said, "elastic jobs need not fill the machine"
