"""Distributed trainings as containers, scaled while they run, on two engines."""

import image
from elastic import Training, digests, running, spec, undisturbed, words
from local import workload

from headway.backend.job_store import JobStore


def test_a_synchronous_job_of_containers_grows_and_shrinks_on_two_engines(tmp_path, engines):
    nodes = [{"name": name, "engine": e.url} for name, e in zip("ab", engines, strict=True)]
    job = {"name": "x", "spec": spec(words(python="python3"))}
    path, x = workload(tmp_path, job, nodes=nodes), Training(tmp_path)
    options = ["--backend", "docker", "--image", image.NAME, "--policy", "gang"]
    with running(path, *options, data=tmp_path) as run:
        x.grow_and_shrink()
        state = JobStore(tmp_path / "runs" / "latest").load(["x"])["x"]
        assert run.wait(120) == 0
    assert digests(x.log()) == undisturbed(), "as if nothing had happened"
    assert (len(x.joined(0)), len(x.joined(1)), len(x.joined(2))) == (3, 2, 1)
    assert {r.node for r in state.replicas} == {"a", "b"}
    assert [e.containers() for e in engines] == [[], []]
