"""Which nodes are drained, and where the jobs on them can go."""

from headway.backend import drained_nodes
from headway.controller.controller import Controller
from headway.controller.events import Admitted, NewJob, NodeChanged
from headway.core.model.decision import Place
from headway.core.model.job import JobSpec, Mode, Phase, Task
from headway.core.model.snapshot import Trigger
from headway.core.model.units import ReplicaId, Resources
from making import node


def cluster(*names):
    made = Controller()
    for name in names:
        made.handle(NodeChanged(node(name, cpu=2.0)), 0.0)
    return made


def runs(controller, name, on, *, cpu=1.0, mode=Mode.SDK):
    spec = JobSpec(tasks=(Task(request=Resources(cpu=cpu)),), checkpoint=mode)
    controller.add(NewJob(id=name, spec=spec, submitted_at=0.0))
    controller.tick(0.0)
    controller.handle(Admitted(name), 0.0)
    replica = ReplicaId.of(name, "main", 0)
    why, _ = controller.apply(Place(job=name, where=((replica, on),)), 0.0)
    job = controller.jobs[name]
    assert why == ""
    job.replicas[replica].running = True
    job.replicas[replica].phase = job.phase = Phase.RUNNING


def test_no_job_may_use_a_drained_node_until_it_is_undrained(tmp_path):
    c = cluster("a", "b")
    c.add(NewJob(id="x", spec=JobSpec(), submitted_at=0.0))
    c.tick(0.0)
    c.handle(Admitted("x"), 0.0)
    c.take_outbox(0.0)
    drained_nodes.change(tmp_path, c, "a", 0.0, drain=True)
    drained_nodes.change(tmp_path, c, "a", 0.0, drain=True)
    assert drained_nodes.read(tmp_path) == ["a"]
    assert c.records.to_core("x").spec.tasks[0].nodes == ("b",)
    assert Trigger.NODE in c.outbox.triggers
    assert list(c.take_outbox(1.0).jobs) == ["x"], "the policy is told"
    drained_nodes.change(tmp_path, c, "a", 0.0, drain=False)
    assert c.records.to_core("x").spec.tasks[0].nodes is None
    assert drained_nodes.read(tmp_path) == []


def test_a_file_that_cannot_be_read_drains_nothing(tmp_path):
    assert drained_nodes.read(tmp_path) == []
    (tmp_path / drained_nodes.FILE).write_text("[")
    assert drained_nodes.read(tmp_path) == []


def asked(controller, now):
    controller.tick(now)
    return [(r.job, r.wish, r.to) for r in controller.take_outbox(now).requests]


def test_jobs_that_can_move_are_asked_to_leave_until_the_node_is_undrained(tmp_path):
    c = cluster("a", "b")
    runs(c, "x", "a")
    runs(c, "y", "a", mode=Mode.NONE)
    runs(c, "z", "b")
    drained_nodes.change(tmp_path, c, "a", 0.0, drain=True)
    assert asked(c, 0.0) == [("x", "leave", "a")]
    c.handle(NodeChanged(node("a", cpu=2.0)), 1.0)  # the platform knows nothing of it
    assert c.nodes["a"].cordoned
    assert asked(c, 100.0) == [("x", "leave", "a")], "it is still there"
    drained_nodes.change(tmp_path, c, "a", 100.0, drain=False)
    assert not c.nodes["a"].cordoned
    assert asked(c, 200.0) == []


def test_a_drained_node_that_the_platform_does_not_have_is_no_error():
    c = cluster("a")
    assert drained_nodes.use(c, ["gone"], 0.0) == []
