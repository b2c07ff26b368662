"""An error that one job causes is contained to that job."""

import os

import pytest
from live_hands import LiveHands

from contract import Seen
from headway.backend.memory import MemoryPlatform
from headway.backend.usage import UsageSample
from headway.controller import commands
from headway.core.model.decision import Failed, Place
from headway.core.model.job import Phase
from headway.core.model.units import ReplicaId
from headway.metrics.reader import KEPT, MAX_LOG
from making import node


class Faulty(MemoryPlatform):
    """A platform in which one job causes errors."""

    def __init__(self):
        super().__init__({"a": node("a", cpu=4.0)})
        self.wrong = {}

    def execute(self, command):
        if command.job == "bad" and type(command) in self.wrong:
            raise self.wrong[type(command)]
        return super().execute(command)

    def read(self, replica, before):
        del before
        if replica.job == "bad" and "read" in self.wrong:
            raise self.wrong["read"]
        return UsageSample(cpu=1.0)


@pytest.fixture
def hands():
    made = LiveHands(Faulty())
    for name in ("bad", "good"):
        made.submit(name)
    return made


@pytest.fixture
def seen(hands):
    found = Seen(hands)
    for name in ("bad", "good"):
        found.start(name, "a")
    return found


def observe(hands):
    hands.clock.now += 1.0
    hands.backend.wait(0)
    return [r.replica.job for r in hands.backend.observe(("a",)).reports]


def test_a_job_that_cannot_be_measured_fails_at_the_second_error_and_no_other(hands, seen):
    del seen
    assert observe(hands) == ["bad", "good"]
    hands.platform.wrong["read"] = KeyError("no such field")
    assert observe(hands) == ["good"]
    assert hands.phase("bad") is Phase.RUNNING, "an error may pass"
    assert observe(hands) == ["good"]
    hands.until(lambda: hands.phase("bad") is Phase.FAILED)
    assert "unexpected KeyError: 'no such field' (2 times)" in hands.record("bad").reason
    assert hands.phase("good") is Phase.RUNNING
    assert observe(hands) == ["good"]


def test_a_job_whose_start_causes_an_error_fails_alone(hands):
    hands.platform.wrong[commands.Start] = ValueError("embedded null byte")
    found = Seen(hands)
    found.start("good", "a")
    outcome = found.act(Place(job="bad", where=((ReplicaId("bad/worker-0"), "a"),)))
    assert isinstance(outcome, Failed)
    hands.until(lambda: hands.phase("bad").ended)
    assert hands.phase("good") is Phase.RUNNING


def test_two_different_errors_are_no_reason_to_give_a_job_up(hands, seen):
    del seen
    for error in (KeyError("x"), IndexError("x")):
        hands.platform.wrong["read"] = error
        assert observe(hands) == ["good"]
    del hands.platform.wrong["read"]
    assert observe(hands) == ["bad", "good"]
    assert hands.phase("bad") is Phase.RUNNING


def test_a_log_is_truncated_although_nothing_is_decided_or_sampled(hands, seen):
    """With one job, samples and decisions are a quarter of an hour apart after a few days."""
    del seen
    path = hands.folder / "jobs" / "good" / "worker-0" / "out.log"
    path.parent.mkdir(parents=True)
    path.touch()
    hands.clock.now += 10.0
    hands.backend.wait(0)
    os.truncate(path, MAX_LOG + 2**20)
    hands.clock.now += 10.0
    hands.backend.wait(0)
    assert path.stat().st_size < 2 * KEPT
