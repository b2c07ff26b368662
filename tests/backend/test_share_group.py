"""Pods that share: when to look at them again, and what they are to have."""

from math import inf

from headway.backend.kubernetes.platform.job_status import JobStatus
from headway.backend.kubernetes.platform.pod_cpu import Cpu
from headway.backend.kubernetes.platform.share_group import Group, SharedPod
from headway.backend.kubernetes.platform.share_plan import Member, divide
from headway.core.model.job import JobSpec
from headway.core.model.units import ReplicaId
from headway.spec.manifest import TrainingJobSpec


def pod(spec="400m", told=None, **more):
    inside = {"name": "training", "resources": {"requests": {"cpu": spec}}}
    status = {"name": "training", "resources": {"requests": {"cpu": told or spec}}}
    made = {"metadata": {"name": "x", **more}, "spec": {"containers": [inside]}}
    return {**made, "status": {"phase": "Running", "containerStatuses": [status]}}


def shared(name="x", weight=1.0, **more):
    record = JobStatus(name, {}, TrainingJobSpec(), JobSpec())
    replica = ReplicaId(f"{name}/worker-0")
    return SharedPod(replica, 1, record, pod(**more), None, weight)


def group(*pods):
    return Group("default", "a", {p.key: p for p in pods})


def test_a_group_that_waits_for_an_effect_is_not_looked_at_before_its_time():
    """The effect is an event; looking again and again would use a whole core."""
    x = shared(spec="200m", told="400m")
    here = group(x)
    here.due, here.sent, here.wait_until = 1.0, {x.key}, 6.0
    assert here.next == 6.0
    here.steps = [{x.key: Cpu(100)}]
    assert here.next == 6.0
    x.pod = pod("200m")
    here.steps = []
    assert here.next == 1.0
    here.calls = 1
    assert here.next == inf


def test_a_pod_that_is_being_deleted_keeps_its_request_and_the_others_share_the_rest():
    x, y, z = shared("x", 3.0), shared("y"), shared("z")
    x.pod = pod("600m", deletionTimestamp="now", annotations=DECLARED)
    found = group(x, y, z).plan(0.0, None)
    assert [found[p.key].request for p in (x, y, z)] == [600, 300, 300]


DECLARED = {"headway.dev/declared-cpu": '{"requests":{"cpu":"400m"}}'}


def test_an_annotation_that_was_changed_by_another_is_ignored():
    x, y = shared("x"), shared("y")
    amounts = ("1e999", '"1e999"', "-1", "NaN", "-Infinity", "0", "[1]", "9" * 400, '"1E"', "true")
    inside = [f'{{"requests":{{"cpu":{amount}}}}}' for amount in amounts]
    above = '{"requests":{"cpu":2},"limits":{"cpu":1}}'
    for text in ("no", "[]", "1", '{"requests":[1]}', "[" * 100_000, above, *inside):
        x.pod = pod("500m", annotations={"headway.dev/declared-cpu": text})
        assert group(x, y).total == 900, text[:60]


def test_a_pod_whose_return_was_refused_is_left_until_its_time_and_the_others_return():
    x, y = shared("x"), shared("y")
    x.pod, y.pod = pod("600m", annotations=DECLARED), pod("200m", annotations=DECLARED)
    here = group(x, y)
    here.restore, x.held_until = True, 60.0
    assert here.plan(1.0, None) == {x.key: Cpu(600), y.key: Cpu(400)}
    assert here.again(1.0) == 60.0
    assert here.plan(60.0, None) == {x.key: Cpu(400), y.key: Cpu(400)}
    assert here.again(60.0) == inf
    here.restore = False
    assert here.again(1.0) == inf, "a decision that was refused is not repeated"


def test_no_request_is_below_what_an_init_container_holds():
    found = divide(800, [Member(1.0, least=300), Member(99.0)])
    assert [c.request for c in found] == [300, 500]


def test_a_limit_that_its_owner_declares_equal_to_the_request_stays_equal():
    found = divide(400, [Member(1.0, limit=400, declared=400, gap=0)])
    assert found == [Cpu(400, 400)]
