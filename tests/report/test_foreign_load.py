"""What a user reads about CPU that processes outside Headway used."""

import json
from types import SimpleNamespace

import pytest

from headway.cli.result_table import show_results
from headway.policy.registry import build
from headway.report.comparison import run_charts
from headway.report.explain import explain_job
from headway.report.run_page import measured_scenario, write_run
from headway.report.run_timeline import read_timeline, world_timeline
from headway.runtime.journal import FileJournal
from headway.runtime.result import to_json
from headway.sim.build import to_scenario
from headway.sim.driver import simulate
from headway.sim.summary import summary
from headway.spec.workload import make_workload


@pytest.fixture
def ran(tmp_path):
    """Run a job of 10 core-seconds on two cores; return the world and a directory of the run."""

    def run(*foreign):
        jobs = [{"name": "x", "profile": {"work": 10}}]
        workload = make_workload(jobs=jobs, nodes=[{"cpu": 2, "foreign": foreign}])
        journal = FileJournal(tmp_path / "journal.jsonl", durable=False)
        world = simulate(to_scenario(workload), build("headway"), journal=journal, record=True)
        journal.close()
        result = to_json([summary(world, "headway", None)])
        (tmp_path / "result.json").write_text(json.dumps([result]))
        folder = SimpleNamespace(
            id="r",
            path=tmp_path,
            journal=tmp_path / "journal.jsonl",
            usage=tmp_path / "usage.jsonl",
            about={},
            ended=True,
            write=lambda name, text: (tmp_path / name).write_text(text),
        )
        return world, folder

    return run


LOAD = ({"at": 2, "cpu": 1.3}, {"at": 4, "cpu": 1.32}, {"at": 6, "cpu": 0}, {"at": 99, "cpu": 1})


def test_explain_says_what_others_used_while_the_job_ran(ran):
    _, folder = ran(*LOAD)
    events = explain_job(folder.journal, "x").events
    found = [(e.at_s, e.what) for e in events if "others" in e.what]
    assert found == [(2.0, "1.3 of 2 cores used by others"), (6.0, "0.0 of 2 cores used by others")]
    times = [e.at_s for e in events]
    assert times == sorted(times)


def test_nothing_is_shown_about_a_machine_without_foreign_load(ran, capsys):
    world, folder = ran()
    assert not [e for e in explain_job(folder.journal, "x").events if "others" in e.what]
    assert "others" not in run_charts(world_timeline(world))
    assert "others" not in write_run(folder).read_text()
    show_results([[summary(world, "headway", None)]])
    assert "other processes" not in capsys.readouterr().out


def test_the_page_shows_what_others_used(ran):
    world, folder = ran(*LOAD)
    drawn = run_charts(world_timeline(world))
    assert "used by others" in drawn
    assert 'class="area base"' in drawn, "grey: it is no job"
    assert read_timeline(folder).foreign[1:3] == [(2.0, 1.3), (4.0, 1.32)]
    assert "Mean foreign load: 0.5 of 2 cores used by others." in write_run(folder).read_text()


def test_what_an_observed_run_is_simulated_with_includes_what_others_used(ran):
    world, _ = ran(*LOAD)
    seen = world_timeline(world)
    specs = {job.id: job.spec for job in world.scenario.jobs}
    scenario = measured_scenario(seen, [*summary(world, "headway", None).per_job], specs)
    assert scenario.foreign[0].given[:2] == ((2.0, 1.3), (4.0, 1.32))
    assert simulate(scenario, build("fair")).now == pytest.approx(world.now)


def test_a_result_says_what_others_used(ran, capsys):
    world, _ = ran({"at": 0, "cpu": 1.3})
    show_results([[summary(world, "headway", None)]])
    assert "other processes used 1.3 cores on average" in capsys.readouterr().out
