"""The measured CPU of processes outside Headway."""

import os
from time import process_time
from types import SimpleNamespace

import pytest

from headway.backend import procfs
from headway.backend.clock import Clock
from headway.backend.cpu_partition import Cut
from headway.backend.docker.container_table import ContainerTable
from headway.backend.docker.stats import ByGroup
from headway.backend.foreign_load import ForeignLoad
from headway.backend.live import LiveBackend
from headway.backend.local.enforcement.nice import Nice
from headway.backend.local.platform import LocalPlatform
from headway.backend.usage import UsageSample
from headway.core.model.snapshot import Trigger
from making import node


class Machine:
    """Two cores on which replicas and others use as much as a test says."""

    def __init__(self, **nodes):
        self.busy, self.now = 0.0, 0.0
        self.accounts = {}
        self.load = ForeignLoad(nodes or {"a": 2.0}, range(2), lambda: self.accounts, self.read)

    def read(self, cpus):
        assert len(cpus) == 2
        return self.busy + process_time()  # of which our own part is not foreign

    def passes(self, seconds, *, others, **ours):
        """What is reported after so many seconds."""
        self.now += seconds
        self.busy += seconds * (others + sum(ours.values()))
        before = self.accounts
        self.accounts = {name: before.get(name, 0.0) + seconds * c for name, c in ours.items()}
        return {name: round(cores, 2) for name, cores in self.load.changes(self.now).items()}


def test_what_neither_replicas_nor_headway_use_is_used_by_others():
    machine = Machine()
    assert machine.passes(0, others=0) == {}
    assert machine.passes(2, others=1.3) == {"a": 1.3}


def test_replicas_alone_leave_nothing_to_report():
    machine = Machine()
    machine.passes(0, others=0, x=0)
    assert [machine.passes(2, others=0, x=1.5) for _ in range(5)] == [{}] * 5


def test_the_load_is_smoothed_and_small_changes_are_not_reported():
    machine = Machine()
    machine.passes(0, others=0)
    machine.passes(2, others=1.0)
    assert machine.passes(2, others=1.1) == {}
    assert machine.passes(2, others=2.0) == {"a": 1.35}
    assert machine.passes(60, others=0.0) == {"a": 0.0}


def test_it_is_measured_every_two_seconds_only():
    machine = Machine()
    machine.passes(0, others=0)
    assert machine.passes(1.5, others=1.0) == {}
    assert machine.passes(0.5, others=1.0) == {"a": 1.0}


def test_an_interval_in_which_a_replica_starts_or_ends_is_not_counted():
    """A part of what the replica used is not in its account."""
    machine = Machine()
    machine.passes(0, others=0.0)
    assert machine.passes(2, others=0.0, x=1.0) == {}
    assert machine.passes(2, others=0.5, x=1.0) == {"a": 0.5}
    assert machine.passes(2, others=2.0) == {}


def test_a_load_that_cannot_be_measured_now_is_measured_later():
    machine = Machine()
    machine.passes(0, others=0)
    accounts, machine.accounts = machine.accounts, None
    machine.now, machine.busy = 2.0, 2.0
    assert machine.load.changes(2.0) == {}
    machine.accounts = accounts
    assert machine.passes(1, others=1.0) == {"a": 1.0}


def test_nodes_of_a_machine_lose_in_proportion_to_their_cores():
    machine = Machine(a=1.5, b=0.5)
    machine.passes(0, others=0)
    assert machine.passes(2, others=1.0) == {"a": 0.75, "b": 0.25}


def test_cores_that_belong_to_no_node_are_used_first():
    machine = Machine(a=1.0)
    machine.passes(0, others=0)
    assert machine.passes(2, others=0.9) == {}
    assert machine.passes(600, others=1.5) == {"a": 0.5}


def test_the_busy_time_of_the_machine_grows_with_what_we_use():
    cpus = os.sched_getaffinity(0)
    before, end = procfs.busy_time(cpus), process_time() + 0.2
    while process_time() < end:
        pass
    assert procfs.busy_time(cpus) - before >= 0.15
    assert procfs.busy_time([]) == 0


@pytest.fixture
def local(tmp_path):
    """A platform of one machine, on which others use what a test says."""
    machine, limits = Machine(), Nice()
    cuts = [Cut(node("a", cpu=2.0))]
    platform = LocalPlatform(tmp_path, cuts, {}, limits, Clock(), machine.load)
    platform.clock = lambda: machine.now
    yield machine, platform, limits, LiveBackend(platform, tmp_path, {}, lambda: machine.now)
    platform.close()


def test_a_change_is_observed_and_triggers_a_cycle(local):
    machine, platform, limits, backend = local
    backend.observe()
    backend.wait(0.0)
    machine.now, machine.busy = 2.0, 2.0
    assert backend.wait(0.0) is Trigger.NODE
    (seen,) = backend.observe().nodes
    assert (seen.foreign, seen.capacity.cpu, seen.available) == (1.0, 2.0, 1.0)
    assert platform.nodes() == [seen]
    assert limits.available == {"a": 1.0}


def test_weights_hold_under_pacing_although_others_use_the_machine():
    """Limits that add up to the whole machine would not bind."""
    limits, rates = Nice(), {}
    limits.add_node("a", 2.0, None)
    limits.tell = rates.__setitem__
    for pid, weight in ((11, 1.9), (12, 0.1)):
        group = limits.group("a", "")
        group.demand, group.weight = 1.0, weight
        group.lead(pid)
    limits.adjust()
    assert rates == {}
    limits.set_available("a", 1.0)
    assert rates == pytest.approx({11: 0.9975, 12: 0.0525})


def test_replicas_under_pacing_are_not_measured_twice_in_a_moment():
    limits = Nice()
    assert limits.used() == {}
    assert limits.used() is None


def test_containers_are_accounted_by_their_cgroups_or_not_at_all():
    table, here, there = ContainerTable("run"), object(), object()
    group = SimpleNamespace(read=lambda before: UsageSample(cpu=3.0))

    def record(name, engine, gauge):
        table.add(
            SimpleNamespace(
                replica=name, attempt=1, engine=engine, gauge=gauge, sample=UsageSample()
            )
        )

    record("x", here, ByGroup(group))
    record("far", there, None)
    assert table.used([here]) == {("x", 1): 3.0}
    record("starting", here, None)
    assert table.used([here]) is None
