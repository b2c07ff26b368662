"""Groups that an ended run left are removed, wherever its data folder was."""

import os
from pathlib import Path

import pytest
from local import headway, job, script, workload

from headway.backend.clock import Clock
from headway.backend.cpu_partition import Cut
from headway.backend.local import launcher
from headway.backend.local.enforcement import cgroupfs
from headway.backend.local.enforcement.select import choose
from headway.backend.local.platform import LocalPlatform
from headway.controller.commands import Assignment, Start
from headway.core.model.job import JobSpec
from headway.core.model.units import ReplicaId
from headway.spec.runnable import Command, RunnableJob
from making import node


@pytest.fixture
def old_groups():
    """Makes empty groups of a run that began long ago; returns the topmost of each hierarchy."""
    made = []

    def make(run):
        bases = dict.fromkeys([*cgroupfs.bases1().values(), *cgroupfs.bases2()[:1]])
        tops = [Path(base, "headway", run) for base in bases]
        for top in tops:
            inner = top / "machine" / "x_main-0.1"
            inner.mkdir(parents=True)
            for each in (inner, inner.parent, top):
                os.utime(each, (0, 0))
        made.extend(tops)
        return tops

    yield make
    cgroupfs.clear(map(str, made))


@pytest.mark.parametrize("enforcement", ["cgroup"], indirect=True)
def test_groups_of_a_run_whose_data_folder_was_deleted_are_removed_unless_it_lives(
    tmp_path, enforcement, old_groups
):
    del enforcement
    ended, lives = old_groups("20200101-000000-aaaaaa"), old_groups("20200101-000000-bbbbbb")
    held = [cgroupfs.hold(str(top)) for top in lives]
    try:
        headway("run", workload(tmp_path, job("x", script(tmp_path, "trains"))), data=tmp_path)
        assert [top for top in ended if top.exists()] == []
        assert all((top / "machine" / "x_main-0.1").exists() for top in lives)
    finally:
        for each in held:
            os.close(each)


@pytest.mark.parametrize("enforcement", ["cgroup"], indirect=True)
def test_a_job_that_has_just_started_finds_its_group_when_headway_has_ended(
    tmp_path, enforcement, monkeypatch
):
    del enforcement
    late = launcher.SHIM.replace("# failpoint shim.enter", "sleep 1")
    monkeypatch.setattr(launcher, "SHIM", late)
    done = Command(argv=("touch", str(tmp_path / "done")))
    jobs = {"x": RunnableJob(id="x", at=0.0, spec=JobSpec(), commands={"main": done})}
    limits = choose("20200101-000000-cccccc")
    platform = LocalPlatform(tmp_path, [Cut(node("a", cpu=1.0))], jobs, limits, Clock())
    name = ReplicaId("x/main-0")
    platform.execute(Start("x", (Assignment(name, 1, "a", 0),), (name,)))
    records = platform.store.records(name)
    [started] = platform.processes.values()
    platform.close()
    try:
        started.reap()
        assert launcher.exit_code(records, 1) == 0
        assert (tmp_path / "done").exists()
    finally:
        limits.remove_groups()
