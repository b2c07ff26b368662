"""A PyTorch job with DistributedDataParallel as containers on two engines, scaled meanwhile."""

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import image
import pytest
from ddp import Ddp, check_end, job, undisturbed, words
from elastic import running
from engines import roomy
from local import workload
from scaling_hands import ContainerHands, kills, making


@pytest.fixture(scope="module")
def torch_engines(engines, torch_python):
    """Two engines with an image that has PyTorch."""
    with TemporaryDirectory(dir=roomy()) as folder:
        image.torch_archive(torch_python, archive := Path(folder, "torch.tar"))
        for engine in set(engines):
            engine.load(image.TORCH, archive)
    yield engines
    for engine in set(engines):
        engine.client.delete(f"/images/{image.TORCH}", force=True)


@pytest.mark.long
def test_a_ddp_job_of_containers_grows_and_shrinks_on_two_engines(
    tmp_path, torch_engines, torch_python
):
    nodes = [{"name": n, "engine": e.url} for n, e in zip("ab", torch_engines, strict=True)]
    made, x = job(words("python3"), env={}), Ddp(tmp_path)
    path = workload(tmp_path, made, nodes=nodes)
    options = ["--backend", "docker", "--image", image.TORCH, "--policy", "gang"]
    with running("run", path, *options, data=tmp_path) as run:
        x.grow_and_shrink()
        assert run.wait(240) == 0
    check_end(x.log(), undisturbed(torch_python))
    x.check_changes()
    assert len(x.starts()) == 3, "one restart for each change"
    assert [e.containers() for e in torch_engines] == [[], []]


@pytest.mark.long
@pytest.mark.parametrize(
    ("change", "phase", "victim"), kills(("worker-0", "worker-1"), [("grow", "saving", "worker-1")])
)
def test_a_ddp_container_that_is_killed_while_the_job_is_scaled_costs_no_sample(
    tmp_path, torch_engines, torch_python, change, phase, victim
):
    with making(tmp_path, partial(ContainerHands, torch_engines)) as make:
        x = make(words("python3", demand=0.05), server=False, image=image.TORCH)
        x.kill_while(change, phase, victim)
        check_end(x.log(), undisturbed(torch_python))
