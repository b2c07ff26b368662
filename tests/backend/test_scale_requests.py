"""Requests to scale, as a live backend answers them at once."""

import pytest
from live_hands import LiveHands
from typer.testing import CliRunner

from headway.backend import inbox
from headway.backend.inbox import Answer
from headway.backend.memory import MemoryPlatform
from headway.cli import app
from headway.core.model.capabilities import Capabilities
from headway.core.model.decision import Place
from headway.core.model.job import Elastic, JobSpec, Mode, Task
from headway.core.model.snapshot import Request
from headway.core.model.units import ReplicaId
from headway.spec.runnable import RunnableJob
from making import node


class Rigid(MemoryPlatform):
    capabilities = Capabilities(scale=False)


def hands(*, elastic=Elastic.RESTART, mode=Mode.SDK, start=True, platform=MemoryPlatform, most=3):
    it = LiveHands(platform.of([node("a")]))
    spec = JobSpec(
        tasks=(Task(name="ps"), Task(name="worker", most=most, elastic=elastic)), checkpoint=mode
    )
    it.backend.submit(RunnableJob(id="x", at=0.0, spec=spec, commands={}))
    it.until(lambda: it.record("x").arrived)
    if start:
        where = tuple((ReplicaId.of("x", task, 0), "a") for task in ("ps", "worker"))
        it.backend.act(Place(job="x", where=where))
        it.settle()
    return it


def answer(it, count, task="worker"):
    there = inbox.put(it.folder, Request(job="x", wish="scale", task=task, count=count))
    it.until(lambda: it.backend.wait(0) or not there.exists() or it.record("x").asked_size)
    return inbox.take_answer(there)


@pytest.mark.parametrize(
    ("count", "given", "why"),
    [
        (4, {}, "worker can have 1 to 3 replicas: set minReplicas and maxReplicas"),
        (2, {"most": 1}, "worker can have only 1 replica: set minReplicas and maxReplicas"),
        (1, {}, "worker has 1 replica already"),
        (1, {"start": False}, "worker has 1 replica already"),
        (2, {"mode": Mode.NONE}, "it cannot save checkpoints, which it needs to start in another"),
        (2, {"platform": Rigid}, "this platform cannot scale running jobs"),
    ],
)
def test_what_has_no_effect_is_answered_at_once(count, given, why):
    assert answer(hands(**given), count).why.startswith(why)


def test_a_task_that_does_not_exist_is_answered_with_those_that_do():
    assert answer(hands(), 2, "chief") == Answer(unknown="task", known=("ps", "worker"))


def test_what_can_be_done_is_not_refused():
    assert answer(hands(), 3) is None
    assert answer(hands(elastic=Elastic.INDEPENDENT, mode=Mode.NONE), 2) is None
    pending = hands(start=False)
    assert answer(pending, 2) is None
    assert pending.record("x").spec.task("worker").replicas == 2


@pytest.mark.parametrize("words", ["worker", "worker=", "=3", "worker=0", "worker=many"])
def test_words_that_are_no_size_are_an_error(words):
    done = CliRunner().invoke(app, ["scale", "x", words])
    assert done.exception.hint == "headway scale x worker=3"


def test_a_request_of_the_wrong_kind_is_left_out(tmp_path):
    box = inbox.Inbox(tmp_path)
    inbox.put(tmp_path, Request(job="x", wish="scale", task="worker", count=2))
    odd = '{"is": "Request", "job": "x", "wish": "scale", "task": "worker", "count": "2"}'
    (tmp_path / "requests" / "0-bad.json").write_text(odd)
    assert [r.count for r in box.new()] == [2]
