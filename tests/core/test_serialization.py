"""What is written is what is read back."""

import copy
import json
import pickle
from dataclasses import MISSING, fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.cycle.policy import ChainMemory, PerNodeMemory
from headway.core.cycle.validate import Verdict
from headway.core.estimate.category import Category
from headway.core.model.decision import Failed, Move, Place, Plan, Refused, Scale, SetShare, Suspend
from headway.core.model.job import Estimate, Expected
from headway.core.model.report import Report, Usage
from headway.core.model.serialization import KNOWN, from_plain, to_plain
from headway.core.model.snapshot import Observation, Request
from headway.core.model.units import ReplicaId
from headway.policy.share.flowcon import FlowConMemory
from making import heard, job, node, replica

THINGS = [
    node("a", cpu=2.0, speed=0.5, rack="r1", up=False),
    job("vae", expected=Expected(work=Estimate(value=3.5, error=0.1), demand=0.5), total_steps=9),
    replica("vae", limit=0.25, weight=3.0),
    heard(1.0, None, 0.5),
    Observation(
        at=1.5,
        nodes=(node(),),
        jobs=(job("x"),),
        replicas=(replica("x"),),
        gone=("b",),
        reports=(
            Report(replica=ReplicaId("x/main-0"), since=0.0, at=1.0, usage=Usage(cpu=0.1 + 0.2)),
        ),
        requests=(Request(job="x", wish="move", to="b"),),
    ),
    Plan(
        decisions=(
            SetShare(replica=ReplicaId("x/main-0"), limit=0.1 + 0.2, reason="why"),
            Place(job="y", where=((ReplicaId("y/main-0"), "a"), (ReplicaId("y/main-1"), "b"))),
            Move(replica=ReplicaId("x/main-0"), to="b"),
            Scale(
                job="x",
                task="worker",
                add=((ReplicaId("x/worker-1"), "a"),),
                remove=(ReplicaId("x/worker-0"),),
            ),
            Suspend(job="x"),
        ),
        wake_after=20.0,
        look=("a",),
    ),
    Failed(decision=Suspend(job="x"), why="disk full"),
    Verdict(refused=(Refused(decision=Suspend(job="x"), why="no"),)),
    PerNodeMemory(
        members={"a": FlowConMemory(interval=40.0, categories={"x/main-0": Category.WATCHED})},
        due={"a": 40.0},
        agenda=[(40.0, 0, "a")],
    ),
    ChainMemory(members=[None, 3]),
]


@pytest.mark.parametrize("thing", THINGS, ids=lambda t: type(t).__name__)
def test_every_kind_of_record_survives_json(thing):
    text = json.dumps(to_plain(thing), allow_nan=False)
    back = from_plain(json.loads(text))
    assert back == thing or isinstance(thing, ChainMemory)
    assert to_plain(back) == to_plain(thing)


def test_defaults_are_left_out():
    assert to_plain(SetShare(replica=ReplicaId("x/main-0"))) == {
        "is": "SetShare",
        "replica": "x/main-0",
    }


def test_a_field_of_an_older_version_does_not_matter():
    plain = {"is": "SetShare", "replica": "x/main-0", "made_at": 3.0}
    assert from_plain(plain) == SetShare(replica=ReplicaId("x/main-0"))


def test_enums_come_back_as_themselves():
    back = from_plain(to_plain(THINGS[2]))
    assert back.phase is THINGS[2].phase


def test_replicas_come_back_as_ids_wherever_the_annotation_says_so():
    name = ReplicaId("team/x/worker-1")
    scale = from_plain(to_plain(Scale(job="x", task="worker", add=((name, "a"),), remove=(name,))))
    memory = from_plain(to_plain(FlowConMemory(interval=1.0, categories={name: Category.WATCHED})))
    for found in (scale.add[0][0], scale.remove[0], *memory.categories):
        assert (found, found.job, found.task, found.index) == (name, "team/x", "worker", 1)


def test_an_id_is_copied_and_pickled_as_one():
    name = ReplicaId.of("x", "main", 0)
    for same in (copy.deepcopy(name), pickle.loads(pickle.dumps(name))):  # noqa: S301 - our own
        assert (same, type(same)) == (name, ReplicaId)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_survive_exactly(value):
    back = from_plain(json.loads(json.dumps(to_plain(Usage(cpu=value)))))
    assert back.cpu == value


def test_every_registered_record_can_be_read_by_its_type_hints():
    for cls in KNOWN.values():
        assert fields(cls) is not None
        from_plain({"is": cls.__name__}) if not any(_required(f) for f in fields(cls)) else None


def _required(field):
    return field.default is MISSING and field.default_factory is MISSING


@pytest.mark.parametrize(
    "plain",
    [
        {"is": "Usage", "cpu": "much"},
        {"is": "Usage", "cpu": True},
        {"is": "Observation", "at": 1.0, "nodes": {"a": 1}},
        {"is": "Observation", "at": 1.0, "nodes": [{"is": "Usage"}]},
        {"is": "Observation", "at": 1.0, "jobs": [3]},
        {"is": "Observation", "at": None},
        {"is": "Plan", "decisions": [{"is": "Usage"}]},
        {"is": "Plan", "decisions": "all"},
        {"is": "SetShare", "replica": 3},
        {"is": "Place", "job": 5, "where": []},
        {"is": "Place", "job": "x", "where": [["x/main-0"]]},
        {"is": "Place", "job": "x", "where": ["x/main-0"]},
        {"is": "FlowConMemory", "interval": 1.0, "categories": []},
        {"is": "FlowConMemory", "interval": 1.0, "categories": {"x/main-0": "no category"}},
        {"is": "ChainMemory", "members": {}},
    ],
    ids=str,
)
def test_a_value_of_another_type_is_refused(plain):
    """A file may have been changed; what is read must be what the type says."""
    with pytest.raises((TypeError, ValueError)):
        from_plain(plain)
