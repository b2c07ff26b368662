"""The conformance suite: what every platform must do. A platform passes it by one fixture.

A capability that is declared and refused fails; one that is not declared is skipped by name.
"""

from typing import Protocol

import pytest

from headway.core.cycle.cluster_state import ClusterState, assemble, remember
from headway.core.model.capabilities import Capabilities
from headway.core.model.decision import (
    Applied,
    Move,
    Place,
    Refused,
    Scale,
    SetShare,
    Started,
    Suspend,
)
from headway.core.model.job import Job, Phase
from headway.core.model.snapshot import Snapshot, Trigger
from headway.core.model.units import ReplicaId


class Platform(Protocol):
    """A backend under test, and what a test needs to change its world."""

    backend: object
    capabilities: Capabilities

    def submit(self, name: str, *, workers: int = 1, limit: float | None = None) -> Job:
        """A long job that can save itself; it may have up to three workers."""

    def settle(self) -> None:
        """Let what is under way arrive."""

    def end(self, name: str) -> None:
        """Let a job finish by itself."""

    def share(self, replica: str) -> tuple[float | None, float]:
        """Ceiling and weight, read back from the platform."""

    def step(self, name: str) -> float:
        """How far the job has come, by the platform's own account."""

    def leftovers(self) -> list[str]:
        """What the platform still holds of ended jobs."""


class Seen:
    """The loop's view of a platform, one look at a time."""

    def __init__(self, platform: Platform) -> None:
        self.platform, self.history = platform, ClusterState()

    def look(self) -> Snapshot:
        self.history = remember(self.history, self.platform.backend.observe())
        return assemble(self.history, Trigger.NODE)

    def start(self, name: str, *nodes: str) -> Snapshot:
        self.look()
        where = tuple((ReplicaId.of(name, "worker", i), node) for i, node in enumerate(nodes))
        assert isinstance(self.act(Place(job=name, where=where)), Started)
        self.platform.settle()
        return self.look()

    def act(self, decision):
        return self.platform.backend.act(decision)

    def needs(self, capability):
        if not getattr(self.platform.capabilities, capability):
            pytest.skip(f"capability not declared: {capability}")

    def set(self, share):
        """At once, or a little later where the platform takes its time."""
        outcome = self.act(share)
        assert isinstance(outcome, Applied | Started)
        if isinstance(outcome, Started):
            self.platform.settle()


class BackendContract:
    @pytest.fixture
    def platform(self) -> Platform:
        raise NotImplementedError

    @pytest.fixture
    def seen(self, platform):
        return Seen(platform)

    def test_start_and_end_are_seen(self, platform, seen):
        platform.submit("x")
        assert [j.id for j in seen.look().waiting] == ["x"]
        s = seen.start("x", "a")
        assert (s.jobs["x"].phase, s.running[0].node) == (Phase.RUNNING, "a")
        platform.end("x")
        s = seen.look()
        assert [(j.id, j.phase) for j in s.changed.ended] == [("x", Phase.SUCCEEDED)]
        assert not s.replicas

    def test_a_share_is_set_and_read_back_from_the_platform(self, platform, seen):
        seen.needs("shares")
        platform.submit("x")
        seen.start("x", "a")
        seen.set(SetShare(replica=ReplicaId("x/worker-0"), limit=0.25, weight=3.0))
        assert platform.share("x/worker-0") == pytest.approx((0.25, 3.0))
        r = seen.look().replicas["x/worker-0"]
        assert (r.limit, r.weight) == pytest.approx((0.25, 3.0))
        seen.set(SetShare(replica=ReplicaId("x/worker-0")))
        assert platform.share("x/worker-0") == (None, 1.0)

    def test_a_ceiling_that_its_user_set_is_there_from_the_start(self, platform, seen):
        seen.needs("shares")
        platform.submit("x", limit=0.25)
        seen.start("x", "a")
        assert platform.share("x/worker-0") == pytest.approx((0.25, 1.0))
        assert seen.look().replicas["x/worker-0"].limit == pytest.approx(0.25)

    def test_the_same_act_twice_changes_nothing(self, platform, seen):
        seen.needs("shares")
        platform.submit("x")
        seen.start("x", "a")
        share = SetShare(replica=ReplicaId("x/worker-0"), limit=0.5)
        seen.set(share)
        before = platform.share("x/worker-0")
        seen.set(share)
        assert platform.share("x/worker-0") == before
        again = Place(job="x", where=((ReplicaId("x/worker-0"), "a"),))
        assert isinstance(seen.act(again), Refused)
        assert len(seen.look().replicas) == 1

    def test_a_refused_gang_leaves_nothing(self, platform, seen):
        platform.submit("g", workers=2)
        seen.look()
        where = ((ReplicaId("g/worker-0"), "a"), (ReplicaId("g/worker-1"), "no-such-node"))
        outcome = seen.act(Place(job="g", where=where))
        assert isinstance(outcome, Refused)
        assert outcome.why
        s = seen.look()
        assert not s.replicas
        assert [j.id for j in s.waiting] == ["g"]

    def test_a_move_goes_on_at_the_saved_step(self, platform, seen):
        seen.needs("migrate")
        platform.submit("x")
        seen.start("x", "a")
        step = platform.step("x")
        outcome = seen.act(Move(replica=ReplicaId("x/worker-0"), to="b"))
        assert isinstance(outcome, Started)
        assert seen.look().replicas["x/worker-0"].phase.in_transit
        platform.settle()
        r = seen.look().replicas["x/worker-0"]
        assert (r.node, r.phase, r.bound_for) == ("b", Phase.RUNNING, None)
        assert platform.step("x") >= step

    def test_scale_up_and_down(self, platform, seen):
        seen.needs("scale")
        platform.submit("g", workers=1)
        seen.start("g", "a")
        up = Scale(job="g", task="worker", add=((ReplicaId("g/worker-1"), "b"),))
        outcome = seen.act(up)
        assert isinstance(outcome, Started)
        platform.settle()
        assert {r.node for r in seen.look().running} == {"a", "b"}
        down = Scale(job="g", task="worker", remove=(ReplicaId("g/worker-1"),))
        outcome = seen.act(down)
        assert isinstance(outcome, Started), outcome
        platform.settle()
        assert [r.id for r in seen.look().running] == ["g/worker-0"]

    def test_suspend_and_resume(self, platform, seen):
        seen.needs("suspend")
        platform.submit("x")
        seen.start("x", "a")
        step = platform.step("x")
        outcome = seen.act(Suspend(job="x"))
        assert isinstance(outcome, Started)
        platform.settle()
        s = seen.look()
        assert [j.id for j in s.waiting] == ["x"]
        assert s.nodes["a"].count == 0
        s = seen.start("x", "b")
        assert s.replicas["x/worker-0"].node == "b"
        assert platform.step("x") >= step

    @pytest.mark.parametrize(
        "decision",
        [
            SetShare(replica=ReplicaId("ghost/worker-0"), limit=0.5),
            Place(job="ghost", where=((ReplicaId("ghost/worker-0"), "a"),)),
            Move(replica=ReplicaId("ghost/worker-0"), to="b"),
            Scale(job="ghost", task="worker", add=((ReplicaId("ghost/worker-1"), "a"),)),
            Suspend(job="ghost"),
        ],
        ids=lambda d: type(d).__name__,
    )
    def test_an_act_on_what_has_vanished_is_refused(self, seen, decision):
        seen.look()
        outcome = seen.act(decision)
        assert isinstance(outcome, Refused)
        assert outcome.why

    def test_nothing_leaks(self, platform, seen):
        for i in range(3):
            platform.submit(f"x{i}")
            seen.start(f"x{i}", "a")
            platform.end(f"x{i}")
        s = seen.look()
        assert (dict(s.jobs), dict(s.replicas), s.nodes["a"].count) == ({}, {}, 0)
        assert platform.leftovers() == []
