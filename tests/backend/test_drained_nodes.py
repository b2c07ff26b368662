"""Which nodes are drained, and where the jobs on them can go."""

from headway.backend import drained_nodes
from headway.controller.controller import Controller
from headway.controller.events import Admitted, NewJob, NodeChanged
from headway.core.model.capabilities import ALL, Capabilities
from headway.core.model.decision import Place
from headway.core.model.job import JobSpec, Mode, Phase, Task
from headway.core.model.snapshot import Request, Trigger
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
    c.take_news(0.0)
    drained_nodes.change(tmp_path, c, "a", drain=True)
    drained_nodes.change(tmp_path, c, "a", drain=True)
    assert drained_nodes.read(tmp_path) == ["a"]
    assert c.records.to_core("x").spec.tasks[0].nodes == ("b",)
    assert Trigger.NODE in c.news.triggers
    assert list(c.take_news(1.0).jobs) == ["x"], "the policy is told"
    drained_nodes.change(tmp_path, c, "a", drain=False)
    assert c.records.to_core("x").spec.tasks[0].nodes is None
    assert drained_nodes.read(tmp_path) == []


def test_a_file_that_cannot_be_read_drains_nothing(tmp_path):
    assert drained_nodes.read(tmp_path) == []
    (tmp_path / drained_nodes.FILE).write_text("[")
    assert drained_nodes.read(tmp_path) == []


def moved(controller, away_from="a", can=ALL):
    drained_nodes.use(controller, [away_from])
    return [(r.job, r.to) for r in drained_nodes.moves(controller, can, away_from)]


def test_jobs_go_where_they_fit_to_the_node_with_the_fewest_replicas():
    c = cluster("a", "b", "c")
    runs(c, "there", "b", cpu=0.5)
    runs(c, "x", "a")
    assert moved(c) == [("x", "c")]


def test_each_moved_job_takes_its_room():
    c = cluster("a", "b")
    runs(c, "x", "a", cpu=1.0)
    runs(c, "y", "a", cpu=1.0)
    drained_nodes.use(c, ["a"])
    first, *_ = drained_nodes.moves(c, ALL, "a")
    c.request(first, 0.0)
    assert first == Request(job="x", wish="move", to="b")
    runs(c, "z", "b", cpu=0.5)
    assert [r.job for r in drained_nodes.moves(c, ALL, "a")] == [], "b has 0.5 cores left"


def test_jobs_without_a_checkpoint_and_of_other_nodes_stay():
    c = cluster("a", "b")
    runs(c, "x", "a", mode=Mode.NONE)
    runs(c, "y", "b")
    assert moved(c) == []


def test_a_platform_that_cannot_migrate_moves_nothing():
    c = cluster("a", "b")
    runs(c, "x", "a")
    assert moved(c, can=Capabilities(migrate=False)) == []
