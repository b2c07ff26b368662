"""Training with a parameter server: any number of workers, the same weights, each sample once."""

import json
import re
import socket
import sys
from contextlib import closing, suppress
from dataclasses import asdict, replace
from io import StringIO
from threading import Thread
from time import monotonic, sleep
from types import SimpleNamespace

import numpy as np
import pytest

from headway.errors import ConfigError
from headway.trainings import __main__
from headway.trainings.parameter_server import wire
from headway.trainings.parameter_server.roles import Role, listen, role_of, take_part
from headway.trainings.parameter_server.schedule import Asynchronous, Synchronous
from headway.trainings.parameter_server.server import Server
from headway.trainings.parameter_server.shared_model import (
    Data,
    Recipe,
    SharedModel,
    ledger_digest,
    write_state,
)
from headway.trainings.parameter_server.worker import Worker
from headway.trainings.stop import Stop
from headway.trainings.train import DONE, TERMINATED

SYNC = Recipe(steps=9, chunks=6, size=2, epoch=4)
ASYNC = replace(SYNC, asynchronous=True)
PATIENCE = 60.0


class Run:
    """A run like the SDK's, which stops its process, or asks for a checkpoint, at a step."""

    managed = False

    def __init__(self, folder=None, *, stop=None, stop_at=0, ask_at=0, latest=None, then=None):
        self.folder, self.stop, self.stop_at, self.ask_at = folder, stop, stop_at, ask_at
        self.then = then
        self.latest, self.steps = latest, []

    def report(self, step, **_):
        self.steps.append(step)
        if self.then:
            self.then(step)
        if step == self.stop_at:
            self.stop.request()

    def should_checkpoint(self):
        return bool(self.steps) and self.steps[-1] == self.ask_at

    def save(self, step, write):
        folder = self.folder / f"{step}"
        folder.mkdir(exist_ok=True)
        write(folder)
        self.latest = SimpleNamespace(folder=folder, step=step)
        return True


class Cluster:
    """A server and workers in threads, which talk over real sockets."""

    def __init__(self, recipe, workers, timeout=PATIENCE):
        self.recipe, self.timeout, self.stop = recipe, timeout, Stop()
        self.listener = listen(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        self.server, self.codes = Server(recipe, workers, timeout), {}
        self.threads = [self._thread("ps", self.server.serve, self.listener, self.stop)]

    def _thread(self, name, call, *given, **more):
        def act():
            self.codes[name] = call(*given, **more)

        thread = Thread(target=act, daemon=True)
        thread.start()
        return thread

    def worker(self, index, run=None, stop=None, *, recipe=None, **more):
        run, stop = run or Run(), stop or Stop()
        made = Worker(recipe or self.recipe, index, self.address, run, stop, self.timeout)
        self.threads.append(self._thread(index, made.train, **more))
        return run

    def join(self):
        for thread in self.threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()
        self.listener.close()
        return self.codes

    def stranger(self):
        return closing(socket.create_connection(self.address, timeout=PATIENCE))


def trained(recipe, workers, **more):
    cluster = Cluster(recipe, workers)
    for index in range(workers):
        cluster.worker(index, **more)
    assert set(cluster.join().values()) == {DONE}
    return cluster.server.model


@pytest.fixture(scope="module")
def alone():
    return trained(SYNC, 1)


def test_synchronous_training_ends_in_the_same_weights_with_any_number_of_workers(alone):
    for workers in (2, 4, 7):  # 7: more than there are chunks
        model = trained(SYNC, workers)
        assert model.weights_digest == alone.weights_digest
        assert model.once


def test_the_ledger_has_each_sample_of_a_whole_epoch_exactly_once(alone):
    expected = np.zeros((3, 48), np.uint8)
    expected[:2] = 1  # the third epoch has one step of four
    rest = [s for c in range(48, 54) for s in Data(SYNC).of(c)]
    expected[2, rest] = 1
    assert len(set(rest)) == 12
    assert alone.samples_digest == ledger_digest(expected)


def test_the_order_of_the_samples_depends_on_the_epoch_and_covers_all_of_them():
    data = Data(SYNC)
    first = [s for chunk in range(24) for s in data.of(chunk)]
    second = [s for chunk in range(24, 48) for s in data.of(chunk)]
    assert sorted(first) == sorted(second) == list(range(SYNC.samples))
    assert first != second


def test_a_training_that_is_stopped_continues_with_another_number_of_workers(tmp_path, alone):
    latest, workers = None, 1
    for stop_at in (3, 6, 0):
        cluster, stop = Cluster(SYNC, workers), Stop()
        chief = Run(tmp_path, stop=stop, stop_at=stop_at, latest=latest)
        cluster.worker(0, chief, stop)
        others = [Stop() for _ in range(1, workers)]
        for index, each in enumerate(others, start=1):
            cluster.worker(index, stop=each)
        if stop_at:
            cluster.threads[1].join(PATIENCE)  # the chief saves, also while others wait for it
            for each in (*others, cluster.stop):
                each.request()
        codes = cluster.join()
        expected = TERMINATED if stop_at else DONE
        assert set(codes.values()) == {expected}, codes
        latest, workers = chief.latest, workers + 1
    assert cluster.server.model.weights_digest == alone.weights_digest
    assert cluster.server.model.samples_digest == alone.samples_digest


def test_a_checkpoint_is_saved_when_it_is_asked_for_and_at_intervals(tmp_path):
    asked, cluster = Run(tmp_path, ask_at=4), Cluster(SYNC, 2)
    cluster.worker(0, asked)
    cluster.worker(1)
    cluster.join()
    assert [p.name for p in tmp_path.iterdir()] == ["4"]
    regular, cluster = Run(tmp_path), Cluster(SYNC, 1)
    cluster.worker(0, regular, save_every=3)
    cluster.join()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["3", "4", "6"]


def test_the_state_that_is_restored_is_the_state_that_was_saved(alone):
    again = SharedModel(SYNC)
    again.restore(alone.state())
    assert again.state() == alone.state()
    assert (again.step, again.loss, again.done) == (9, alone.loss, True)
    with pytest.raises(ConfigError, match="another training: steps=9"):
        SharedModel(replace(SYNC, seed=1)).restore(alone.state())


def test_asynchronous_workers_join_and_leave_and_each_sample_is_used_once(monkeypatch):
    recipe = replace(ASYNC, steps=20)
    cluster, leaving, printed = Cluster(recipe, 1), Stop(), StringIO()
    monkeypatch.setattr(sys, "stdout", printed)  # capsys loses what is printed while it is read

    def until(word):
        end = monotonic() + PATIENCE
        while word not in printed.getvalue():
            assert monotonic() < end
            sleep(0.01)

    def hold(step):
        """The chief goes on when the others have come, and when one of them has gone."""
        if step == 2:
            until("worker-1 joined")
            until("worker-2 joined")
            leaving.request()
            until("worker-1 left")

    with cluster.stranger() as killed:  # takes a chunk and vanishes
        wire.send(killed, {"worker": 5, "recipe": asdict(recipe)})
        cluster.worker(0, Run(then=hold))
        assert wire.receive(killed)[0]["chunks"]
    cluster.worker(1, Run(), leaving, demand=0.01)
    cluster.worker(2, demand=0.01)
    assert cluster.join() == {"ps": DONE, 0: DONE, 1: TERMINATED, 2: DONE}
    assert cluster.server.model.samples_digest == ledger_digest(np.ones((5, 48), np.uint8))


def test_an_asynchronous_training_continues_with_the_chunks_that_are_left(tmp_path):
    model = SharedModel(ASYNC)
    for chunk in (5, 0, 17):
        model.apply({chunk: (1.0, Data(ASYNC).of(chunk), np.ones_like(model.network.flat))})
    write_state(tmp_path, model.state())
    cluster = Cluster(ASYNC, 1)
    cluster.worker(0, Run(tmp_path, latest=SimpleNamespace(folder=tmp_path, step=0)))
    assert cluster.join() == {"ps": DONE, 0: DONE}
    assert cluster.server.model.once


def test_a_chunk_that_was_given_to_another_worker_counts_once():
    model = SharedModel(ASYNC)
    schedule, data = Asynchronous(model), Data(ASYNC)
    (chunk,) = schedule.next(1)
    schedule.leave(1)
    assert schedule.next(2) == [chunk]
    found = {chunk: (1.0, data.of(chunk), np.ones_like(model.network.flat))}
    schedule.push(1, found)
    assert model.count == 0
    schedule.push(2, found)
    schedule.push(2, found)
    assert (model.count, model.once) == (1, True)


def test_a_late_answer_of_a_synchronous_worker_is_not_applied_to_the_next_step():
    model = SharedModel(SYNC)
    schedule, data = Synchronous(model, 2), Data(SYNC)

    def found(chunks):
        return {c: (1.0, data.of(c), np.ones_like(model.network.flat)) for c in chunks}

    first, second = schedule.next(0), schedule.next(1)
    assert (first, second) == ([0, 1, 2], [3, 4, 5])
    schedule.push(0, found(first))
    assert schedule.next(0) is None, "it waits for the other"
    schedule.leave(1)
    schedule.push(1, found(second))
    assert model.step == 1
    schedule.push(1, found(second))
    schedule.push(0, found(schedule.next(0)))
    assert (model.step, model.once) == (1, True)


def test_the_ledger_shows_a_sample_that_was_used_twice():
    model = SharedModel(SYNC)
    for chunk in (0, 1):
        model.apply({chunk: (1.0, Data(SYNC).of(0), np.ones_like(model.network.flat))})
    assert not model.once


def test_a_worker_under_headway_stays_until_the_chief_has_gone():
    """Otherwise a policy that finds its node idle adds another one."""
    cluster, stop, run = Cluster(SYNC, 2), Stop(), Run()
    run.managed = True
    cluster.worker(1, run, stop)
    cluster.worker(0)
    other, chief = cluster.threads[1:]
    chief.join(PATIENCE)
    assert (chief.is_alive(), other.is_alive()) == (False, True)
    stop.request()
    assert cluster.join() == {"ps": DONE, 0: DONE, 1: DONE}


# -- trouble ---------------------------------------------------------------------------------------


def test_a_worker_that_never_joins_is_named_within_the_timeout(capsys):
    cluster = Cluster(SYNC, 3, timeout=0.5)
    cluster.worker(0)
    codes = cluster.join()
    assert codes == {"ps": 1, 0: 1}
    said = capsys.readouterr().out
    assert "error: worker-1, worker-2 did not join within 0.5 s; there are: worker-0" in said
    assert re.search("error: lost the parameter server|error: .* did not answer", said)


def test_a_synchronous_worker_that_hangs_is_named_within_the_timeout(capsys):
    cluster = Cluster(SYNC, 2, timeout=2.0)
    cluster.worker(0)
    with cluster.stranger() as hangs:
        wire.send(hangs, {"worker": 1, "recipe": asdict(SYNC)})
        assert cluster.join()["ps"] == 1
    assert "error: worker-1 did not answer within 2 s" in capsys.readouterr().out


def test_the_samples_of_an_asynchronous_worker_that_hangs_go_to_others():
    cluster = Cluster(ASYNC, 1, timeout=2.0)
    with cluster.stranger() as hangs:
        cluster.worker(0)
        wire.send(hangs, {"worker": 1, "recipe": asdict(ASYNC)})
        assert wire.receive(hangs)[0]["chunks"] or cluster.server.model.done
        cluster.threads[1].join(PATIENCE)
    assert cluster.join()[0] == DONE
    assert cluster.server.model.once


def test_a_server_without_workers_gives_up():
    assert Cluster(ASYNC, 1, timeout=0.2).join() == {"ps": 1}


def test_a_worker_without_a_server_gives_up_or_stops(capsys):
    with closing(listen(("127.0.0.1", 0))) as free:
        address = free.getsockname()
    worker = Worker(SYNC, 1, address, Run(), Stop(), 0.2)
    assert worker.train() == 1
    assert "did not answer in 0.2 s" in capsys.readouterr().out
    stop = Stop()
    stop.request()
    assert Worker(SYNC, 0, address, Run(), stop, 0.2).train() == TERMINATED


def test_a_port_in_use_is_reported_at_once(capsys):
    with closing(listen(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        role = Role("ps", server=("127.0.0.1", port))
        code = take_part(role, SYNC, Run(), Stop(), demand=1.0, save_every=0, timeout=PATIENCE)
    assert code == 1
    said = capsys.readouterr().out
    assert said == f"error: cannot listen on 127.0.0.1:{port}: Address already in use\n"


def test_a_worker_with_other_arguments_or_a_strange_checkpoint_is_refused(tmp_path, capsys):
    cluster = Cluster(SYNC, 1, timeout=PATIENCE)
    cluster.worker(0, recipe=replace(SYNC, seed=3))
    cluster.threads[1].join(PATIENCE)
    assert "worker-0 was started with other arguments" in capsys.readouterr().out
    write_state(tmp_path, SharedModel(ASYNC).state())
    cluster.worker(0, Run(latest=SimpleNamespace(folder=tmp_path, step=0)))
    assert cluster.join() == {"ps": 1, 0: 1}
    assert "the checkpoint belongs to another training" in capsys.readouterr().out


@pytest.mark.parametrize(
    "noise",
    [b"GET / HTTP/1.1\r\n\r\n", wire.SIZES.pack(4, 0) + b"nope", wire.SIZES.pack(2, 0) + b"[]"],
)
def test_a_connection_that_is_no_worker_is_closed_and_changes_nothing(noise, alone):
    cluster = Cluster(SYNC, 1)
    with cluster.stranger() as stranger:
        stranger.sendall(noise)
        with suppress(ConnectionResetError):  # also a way to be closed
            assert stranger.recv(1) == b""
    cluster.worker(0)
    assert cluster.join() == {"ps": DONE, 0: DONE}
    assert cluster.server.model.weights_digest == alone.weights_digest


# -- roles -----------------------------------------------------------------------------------------


def config(task, index, ps=("127.0.0.1:5000",), workers=("h:1", "h:2")):
    cluster = {"ps": list(ps), "worker": list(workers)}
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": task, "index": index}})}


def test_the_role_comes_from_tf_config():
    assert role_of(config("worker", 1)) == Role("worker", 1, 2, ("127.0.0.1", 5000))
    assert role_of({}) == Role("")


@pytest.mark.parametrize(
    "broken",
    [{"TF_CONFIG": "{"}, {"TF_CONFIG": "{}"}, config("chief", 0), config("ps", 1, ("a:1", "b:2"))],
)
def test_a_tf_config_without_one_server_and_workers_is_an_error(broken):
    with pytest.raises(ConfigError):
        role_of(broken)


def test_without_tf_config_server_and_worker_run_in_one_process(capsys, monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    stop = __main__.signal.getsignal(__main__.signal.SIGTERM)
    try:
        words = ["ps-async", "--steps", "2", "--batches", "1", "--epoch", "1", "--timeout", "30"]
        assert __main__.main(words) == DONE
    finally:
        __main__.signal.signal(__main__.signal.SIGTERM, stop)
    assert "samples: 2 epochs of 12, each once, sha256 " in capsys.readouterr().out


def test_a_server_whose_name_is_that_of_another_interface_listens_on_all():
    with closing(listen(("203.0.113.1", 0))) as found:
        assert found.getsockname()[0] == "0.0.0.0"  # noqa: S104


@pytest.mark.parametrize(
    ("model", "package", "name"),
    [("ddp", "torch", "PyTorch"), ("mirrored", "tensorflow", "TensorFlow")],
)
def test_without_its_framework_a_training_says_what_to_install(
    capsys, monkeypatch, model, package, name
):
    monkeypatch.setitem(sys.modules, package, None)
    stop = __main__.signal.getsignal(__main__.signal.SIGTERM)
    try:
        code = __main__.main([model, "--steps", "2"])
    finally:
        __main__.signal.signal(__main__.signal.SIGTERM, stop)
    assert code != DONE
    said = capsys.readouterr().err
    assert f"{name} cannot be imported" in said
    assert f"pip install 'headway[{package}]'" in said
