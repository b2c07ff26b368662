"""The built-in trainings: correct gradients, falling losses, the same weights after any restart."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic
from types import SimpleNamespace

import numpy as np
import pytest

import headway
from headway.errors import ConfigError
from headway.trainings import MODELS, UPDATES_PER_SECOND, __main__
from headway.trainings.birnn import BiRNN
from headway.trainings.cnn import CNN
from headway.trainings.data import CLASSES, SIDE, digits, text
from headway.trainings.gru import GRU
from headway.trainings.lstm import LSTM
from headway.trainings.stop import Stop
from headway.trainings.train import DONE, TERMINATED, Recipe, Training, train
from headway.trainings.vae import VAE

TINY = {
    "vae": lambda rng: VAE(rng, size=3, hidden=5, code=2),
    "gru": lambda rng: GRU(rng, length=4, size=3, hidden=5),
    "cnn": lambda rng: CNN(rng, size=3, first=2, second=3),
    "lstm": lambda rng: LSTM(rng, length=4, size=3, hidden=5),
    "birnn": lambda rng: BiRNN(rng, length=5, size=3, hidden=4),
}
every_model = pytest.mark.parametrize("name", MODELS)


class Run:
    """A run like the SDK's, with a stop or a request for a checkpoint at given steps."""

    def __init__(self, folder, *, stop=None, stop_at=0, ask_at=()):
        self.folder, self.stop, self.stop_at, self.ask_at = folder, stop, stop_at, ask_at
        self.latest, self.losses, self.saved = None, [], []

    def report(self, step, *, loss):
        self.losses.append(loss)
        if step == self.stop_at:
            self.stop.request()

    def should_checkpoint(self):
        return len(self.losses) in self.ask_at

    def save(self, step, write):
        folder = self.folder / str(step)
        folder.mkdir()
        write(folder)
        self.saved.append(step)
        self.latest = SimpleNamespace(folder=folder, step=step)
        return True


@every_model
def test_gradients_agree_with_finite_differences(name):
    rng = np.random.default_rng(5)
    model = TINY[name](rng)
    for key in model.params:  # so that no gradient is right only where its bias is nought
        model.params[key] += 0.1 * rng.standard_normal(model.params[key].shape)
    batch = model.batch(rng)
    _, grads = model.loss_and_grads(batch)
    assert grads.keys() == model.params.keys()
    for key, values in model.params.items():
        assert grads[key].shape == values.shape
        for place in rng.choice(values.size, size=min(values.size, 8), replace=False):
            kept, losses = values.flat[place], []
            for change in (1e-6, -1e-6):
                values.flat[place] = kept + change
                losses.append(model.loss_and_grads(batch)[0])
            values.flat[place] = kept
            slope = (losses[0] - losses[1]) / 2e-6
            assert grads[key].flat[place] == pytest.approx(slope, rel=1e-4, abs=1e-8), key


@every_model
def test_the_loss_falls(name, tmp_path):
    run = Run(tmp_path)
    train(Training(Recipe(model=name, batches=5, seed=1)), run, Stop(), steps=30)
    first, last = np.mean(run.losses[:3]), np.mean(run.losses[-3:])
    assert last < 0.85 * first


@every_model
def test_a_run_that_was_killed_and_resumed_ends_in_the_same_weights(name, tmp_path):
    recipe = Recipe(model=name, batches=2, seed=7)
    undisturbed = Training(recipe)
    assert train(undisturbed, Run(tmp_path), Stop(), steps=8) == DONE

    stop = Stop()
    run = Run(tmp_path, stop=stop, stop_at=5)
    assert train(Training(recipe), run, stop, steps=8) == TERMINATED
    assert run.saved == [5]
    resumed = Training(recipe)
    assert train(resumed, run, Stop(), steps=8) == DONE
    assert len(run.losses) == 8
    assert resumed.digest() == undisturbed.digest()
    assert resumed.loss == undisturbed.loss


def test_another_seed_gives_other_weights():
    assert Training(Recipe(model="cnn", seed=1)).digest() != Training(Recipe(model="cnn")).digest()


def test_checkpoints_are_written_when_due_and_when_asked_for(tmp_path):
    run = Run(tmp_path, ask_at={2, 6})
    train(Training(Recipe(model="cnn", batches=1)), run, Stop(), steps=7, save_every=3)
    assert run.saved == [2, 3, 6]


def test_a_stop_after_a_step_that_was_saved_does_not_save_again(tmp_path):
    stop = Stop()
    run = Run(tmp_path, stop=stop, stop_at=2, ask_at={2})
    assert train(Training(Recipe(model="cnn", batches=1)), run, stop, steps=7) == TERMINATED
    assert run.saved == [2]


def test_a_finished_training_that_is_started_again_exits_at_once(tmp_path, capsys):
    run, recipe = Run(tmp_path), Recipe(model="cnn", batches=1)
    train(Training(recipe), run, Stop(), steps=2, save_every=2)
    once = capsys.readouterr().out.splitlines()
    assert train(Training(recipe), run, Stop(), steps=2) == DONE
    assert capsys.readouterr().out.splitlines() == once[-1:]


def test_a_checkpoint_of_another_training_is_refused(tmp_path):
    run = Run(tmp_path)
    train(Training(Recipe(model="cnn", batches=1)), run, Stop(), steps=1, save_every=1)
    with pytest.raises(ConfigError, match="model=cnn batches=1 seed=0"):
        train(Training(Recipe(model="cnn", batches=1, seed=3)), run, Stop(), steps=2)


def test_generated_data_have_the_documented_shape():
    images, labels = digits(np.random.default_rng(0), 500)
    assert images.shape == (500, SIDE, SIDE)
    assert images.min() == 0
    assert 0.9 < images.max() <= 1
    assert set(labels) == set(range(CLASSES))
    ink = [np.mean(np.sum(images[labels == label] > 0, axis=(1, 2))) for label in range(CLASSES)]
    assert ink[1] == min(ink)
    assert ink[8] == max(ink)
    letters = text(np.random.default_rng(0), 1000)
    assert len(letters) == 1000
    assert 0.1 < np.mean(letters == 0) < 0.4  # words are two to seven letters long


def test_every_model_has_its_nominal_speed():
    assert UPDATES_PER_SECOND.keys() == MODELS.keys()
    assert all(100 < speed < 1000 for speed in UPDATES_PER_SECOND.values())


@pytest.fixture
def command(monkeypatch, capsys):
    """Run the command line in this process: exit code, output, errors."""
    for variable in __main__.THREADS:
        monkeypatch.setenv(variable, "1")
    before = signal.getsignal(signal.SIGTERM)

    def run(*words):
        try:
            code = __main__.main([str(word) for word in words])
        except SystemExit as stop:
            code = stop.code
        found = capsys.readouterr()
        return code, found.out, found.err

    yield run
    signal.signal(signal.SIGTERM, before)


def test_the_command_prints_each_step_and_the_result(command):
    code, out, _ = command("cnn", "--steps", 2, "--batches", 2)
    first, second, last = out.splitlines()
    assert code == 0
    assert re.fullmatch(r"step 1/2 loss \d\.\d{4}", first)
    assert second.startswith("step 2/2 loss ")
    assert re.fullmatch(r"done: 2 steps, loss \d\.\d{4}, weights sha256 [0-9a-f]{64}", last)


def test_help_names_every_model(command):
    code, out, _ = command("--help")
    assert code == 0
    assert all(re.search(rf"^  {name} ", out, re.MULTILINE) for name in MODELS)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["gnu", "--steps", 1], "invalid choice: 'gnu'"),
        (["gru", "--steps", 0], "must be at least 1"),
        (["gru", "--steps", 1, "--demand", 0], "must be above 0"),
        (["gru", "--steps", 1, "--demand", "nan"], "must be above 0"),
    ],
)
def test_an_invalid_argument_gives_one_message(command, words, says):
    code, _, err = command(*words)
    assert code == 2
    assert says in err


def test_a_checkpoint_of_another_training_gives_a_message(command, monkeypatch, tmp_path):
    monkeypatch.setenv("HEADWAY_DIR", str(tmp_path))
    monkeypatch.setenv("HEADWAY_CHECKPOINT_DIR", str(tmp_path / "checkpoint"))
    command("cnn", "--steps", 1, "--batches", 1, "--save-every", 1)
    code, _, err = command("gru", "--steps", 2)
    assert code == 2
    assert "another training" in err
    assert str(tmp_path) in err


def started(*words):
    source = str(Path(headway.__file__).parents[1])
    command = [sys.executable, "-m", "headway.trainings", *map(str, words)]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HEADWAY_")}
    environment["PYTHONPATH"] = source
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def test_a_signal_ends_the_process_after_its_step_even_while_it_waits():
    # A hundredth of a core: the wait after a step is far longer than this test may take.
    with started("gru", "--steps", 9, "--batches", 100, "--demand", "0.01") as process:
        first = process.stdout.readline()
        process.terminate()
        rest, _ = process.communicate(timeout=10)
    assert first.startswith("step 1/9")
    assert rest == ""
    assert process.returncode == 143


def test_demand_is_about_the_fraction_of_a_core_that_is_used():
    with started("cnn", "--steps", 20, "--batches", 20, "--demand", "0.4") as process:
        process.stdout.readline()
        began, (before, kept) = monotonic(), used_by(process.pid)
        for _ in range(9):
            process.stdout.readline()
        took, (after, waited) = monotonic() - began, used_by(process.pid)
        process.terminate()
        process.communicate(timeout=10)
    assert 0.25 < (after - before) / (took - (waited - kept)) < 0.55


def used_by(pid):
    """Seconds on a CPU, and seconds in which it waited for one that others used."""
    used, waited, _ = Path(f"/proc/{pid}/schedstat").read_text(encoding="utf-8").split()
    return int(used) / 1e9, int(waited) / 1e9
