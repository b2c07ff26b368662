"""A data-parallel worker without a framework: what it prints and saves at its end."""

import json
from types import SimpleNamespace

import numpy as np

import headway
from headway.trainings.data_parallel import Worker
from headway.trainings.parameter_server.shared_model import Data, Recipe
from headway.trainings.stop import Stop
from headway.trainings.train import DONE


def alone():
    """The model of a single worker, whose weights count its steps."""
    model = SimpleNamespace(rank=0, chief=0, world=1, state=np.zeros(1))

    def advance(*_):
        model.state += 1
        return 1 / float(model.state[0])

    def restore(folder):
        if folder:
            model.state = np.load(folder / "model.npy")

    model.total, model.advance, model.restore = np.copy, advance, restore
    model.save = lambda folder: np.save(folder / "model.npy", model.state)
    model.weights = lambda: [model.state]
    return model


def test_a_worker_restarted_after_its_end_announces_the_same_end_and_repeats_no_step(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("HEADWAY_DIR", str(tmp_path))
    monkeypatch.setenv("HEADWAY_CHECKPOINT_DIR", str(tmp_path / "checkpoints"))
    recipe = Recipe(steps=3, chunks=1, epoch=3)
    said = []
    for _ in range(2):
        worker = Worker(recipe, Data(recipe), alone(), headway.attach(), Stop())
        assert worker.train(demand=1, save_every=2) == DONE
        said.append(capsys.readouterr().out.splitlines())
    assert said[0][0] == "rank 0 of 1, from step 0"
    assert "each once" in said[0][-2]
    assert said[1] == ["rank 0 of 1, from step 3", *said[0][-2:]]


def test_what_is_saved_is_reported_also_if_the_worker_is_killed_after_that(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWAY_DIR", str(tmp_path))
    monkeypatch.setenv("HEADWAY_CHECKPOINT_DIR", str(tmp_path / "checkpoints"))
    recipe = Recipe(steps=3, chunks=1, epoch=3)
    run = headway.attach()
    Worker(recipe, Data(recipe), alone(), run, Stop()).train(demand=1, save_every=0)
    assert run.latest.step == 3
    *_, last = map(json.loads, (tmp_path / "reports.jsonl").read_text().splitlines())
    assert last["step"] == 3, "the process has not exited"
