"""Built-in distributed models in a workload: tasks, commands, and the simulator's speed model."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from headway.core.model.job import Elastic, Mode
from headway.errors import UnknownName
from headway.sim.build import to_scenario
from headway.spec.arrivals import expand
from headway.spec.catalogue import training_of
from headway.spec.profile import Profile
from headway.spec.runnable import to_jobs
from headway.spec.workload import make_workload

PATH = Path("w.yaml")


def one(**entry):
    return make_workload(jobs=[{"name": "x", **entry}])


def test_a_distributed_model_has_a_parameter_server_and_elastic_workers():
    workers = {"replicas": 2, "min": 1, "max": 4, "cpu": 0.5}
    (job,) = to_jobs(one(model="ps-sync", workers=workers), PATH)
    ps, worker = job.spec.tasks
    assert (ps.name, ps.replicas, ps.most) == ("ps", 1, 1)
    assert (worker.name, worker.least, worker.replicas, worker.most) == ("worker", 1, 2, 4)
    assert (worker.request.cpu, worker.elastic) == (0.5, Elastic.RESTART)
    assert (job.spec.checkpoint, job.spec.total_steps) == (Mode.SDK, 400)
    assert job.commands["ps"].argv == job.commands["worker"].argv
    assert job.commands["ps"].argv[1:4] == ("-m", "headway.trainings", "ps-sync")


def test_asynchronous_workers_join_and_leave_by_themselves():
    (job,) = to_jobs(one(model="ps-async"), PATH)
    assert job.spec.task("worker").elastic is Elastic.INDEPENDENT
    assert job.spec.task("worker").most == 1, "it is not scaled without bounds that allow it"


@pytest.mark.parametrize("model", ["ddp", "mirrored"])
def test_a_data_parallel_model_has_only_workers(model):
    workload = one(model=model, workers={"replicas": 2, "max": 4})
    (job,) = to_jobs(workload, PATH)
    assert [(t.name, t.replicas, t.elastic) for t in job.spec.tasks] == [
        ("worker", 2, Elastic.RESTART)
    ]
    (job,) = to_scenario(workload).jobs
    assert job.spec.speed.kind == "ring"


def test_the_work_of_a_profile_determines_the_size_of_a_chunk_and_of_an_epoch():
    small = training_of("ps-sync", Profile(work=1.0, steps=100))
    large = training_of("ps-sync", Profile(work=100.0, steps=100))
    assert small[0] == large[0] == "ps-sync"
    assert small[1] < large[1]
    profile = {"work": 100, "steps": 100}
    (job,) = to_jobs(one(model="ps-sync", profile=profile), PATH)
    words = job.commands["ps"].argv
    assert words[words.index("--batches") + 1] == str(large[1])
    assert words[words.index("--epoch") + 1] == "1", "a worker holds all samples of an epoch"


def test_the_simulator_has_a_speed_model_of_distributed_models():
    (job,) = to_scenario(one(model="ps-async", workers={"max": 3})).jobs
    assert job.spec.speed.kind == "async"
    assert [t.name for t in job.spec.tasks] == ["ps", "worker"]


def test_arrivals_of_any_model_draw_no_distributed_ones():
    workload = make_workload(arrivals={"every_s": 1, "jobs": 200, "models": "any"})
    assert not any(job.model.startswith("ps-") for job in expand(workload).jobs)


def test_a_model_that_does_not_exist_is_named_with_those_that_do():
    with pytest.raises(UnknownName, match="ps-sink") as caught:
        to_jobs(one(model="ps-sink"), PATH)
    assert "ps-sync" in caught.value.hint


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"model": "vae", "workers": {"replicas": 2}}, "workers needs a distributed model"),
        ({"model": "ps-sync", "workers": {"replicas": 3, "max": 2}}, "between min and max"),
        ({"model": "ps-sync", "workers": {"replicas": 1, "min": 2}}, "between min and max"),
    ],
)
def test_workers_that_make_no_sense_are_refused(entry, says):
    with pytest.raises(ValidationError, match=says):
        one(**entry)
