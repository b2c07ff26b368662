"""The same jobs under two policies in turn, and the page about it."""

from dataclasses import replace

from headway.demo import alternate, describe, median_run, write_demo
from headway.runtime.result import JobResult, summarise


def result(policy, *times, used=0.98):
    jobs = [
        JobResult(name=f"j{i}", submitted_s=0.0, started_s=0.0, finished_s=t, steps=1, moves=0,
                  outcome="succeeded")
        for i, t in enumerate(times)
    ]  # fmt: skip
    made = summarise(tuple(jobs), policy=policy, backend="local", seed=0, used=1.0, capacity=1.0)
    return replace(made, utilization=used)


def test_the_description_is_about_the_median_runs():
    fair = [result("fair", 90, 90), result("fair", 20, 40), result("fair", 10, 10)]
    ours = [result("headway", 10, 40), result("headway", 1, 1), result("headway", 99, 99)]
    assert (median_run(fair), median_run(ours)) == (1, 0)
    assert describe([fair, ours]) == (
        "Under headway, the 2 jobs finished 17% earlier on average than under fair, and no job "
        "finished later. j0 gained most: 10 s instead of 20 s."
    )


def test_a_disturbed_comparison_says_so():
    fair, ours = [result("fair", 20)], [result("headway", 30, used=0.75)]
    text = describe([fair, ours])
    assert "50% later" in text
    assert text.endswith(
        "Other programs took 25% of the core in a run: the comparison is unreliable."
    )
    idle = [result("flowcon:paper", 30, used=0.5)]
    assert "Other programs" not in describe([fair, idle]), "its limits leave the core idle"


def test_the_page_shows_the_median_runs(tmp_path, workload):
    path = workload("jobs: [{name: x, spec: {tasks: [{command: [sleep, '0.1']}]}}]\n")
    results, folders = alternate(path, ["fair", "headway"], 2, tmp_path / "data")
    assert [len(each) for each in folders] == [2, 2]
    write_demo(tmp_path / "demo.html", results, folders, path)
    page = (tmp_path / "demo.html").read_text()
    assert "Means over 2 runs." in page
    assert "2 runs of each; charts show the median run" in page
