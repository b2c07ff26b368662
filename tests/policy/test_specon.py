"""SpeCon, algorithm by algorithm (docs/papers/specon.md)."""

import json
from dataclasses import replace
from math import log

import pytest

from headway.core.estimate.category import Category
from headway.core.estimate.trend import Trend
from headway.core.model.decision import CALM, Move, Place
from headway.core.model.job import Mode, Phase, Task
from headway.core.model.report import Usage
from headway.core.model.serialization import from_plain, to_plain
from headway.core.model.snapshot import Trigger
from headway.core.model.units import ReplicaId
from headway.policy.migration.specon import PAPER, Judged, SpeCon, SpeConMemory, _Cluster
from headway.policy.registry import build
from making import heard, job, node, replica, snapshot

G, W, C = Category.GROWING, Category.WATCHED, Category.CONVERGED
AT = 150.0
TICK = Trigger.TICK
LETTER = {"P": G, "W": W, "C": C}
SLOW = heard(1.0, 0.9, 0.8999, every=30.0, start=AT - 90)  # its growth shrinks below any threshold


def rid(name):
    return ReplicaId.of(name, "main", 0)


class Made:
    """A cluster from words: `n1="P P W"` are two growing jobs and a watched one on node n1.

    A letter is followed by marks: `*` its request was answered, `?` it is about to ask. Jobs are
    named after their node and place: n1a, n1b, …
    """

    def __init__(self, policy=None, *, cpu=1.0, nodes=None, jobs=None, due=AT, **words):
        self.policy = policy or paper()
        self.memory = SpeConMemory(due=due, judged={}, requests=[], homes={})
        self.replicas, self.tracks, self.jobs = [], {}, dict(jobs or {})
        for place, text in words.items():
            for letter, mark in zip("abcdefgh", text.split(), strict=False):
                name = f"{place}{letter}"
                self.replicas.append(replica(name, on=place))
                self.jobs.setdefault(name, job(name))
                known = Judged(category=LETTER[mark[0]], growth=0.005, trend=Trend())
                known.migrated = "*" in mark
                known.converged_at = float(len(self.replicas))
                known.answered_at = known.converged_at if known.migrated else 0.0
                self.memory.judged[rid(name)] = known
                if "?" in mark:
                    self.tracks[rid(name)] = SLOW
        self.nodes = nodes or [node(n, cpu=cpu) for n in words]

    def snapshot(self, at=AT, trigger=TICK):
        s = snapshot(
            at=at,
            trigger=trigger,
            nodes=self.nodes,
            jobs=self.jobs.values(),
            replicas=self.replicas,
        )
        for name, track in self.tracks.items():
            s.replicas[name].history = track
        return s

    def decide(self, at=AT, trigger=TICK):
        plan, self.memory = self.policy.decide(self.snapshot(at, trigger), self.memory)
        return {
            d.replica.job: (d.to, d.reason[-3:-1]) for d in plan.decisions if isinstance(d, Move)
        }, plan

    def moves(self, **when):
        return self.decide(**when)[0]

    def judged(self, name):
        return self.memory.judged[rid(name)]


def paper(**more):
    """The paper's mode, but for its pinned placement and its slow manager."""
    return SpeCon(**{**PAPER, "pinned": False, "serial": False, **more})


# -- Algorithm 3 ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("now", "previous", "growth", "then", "asks"),
    [
        pytest.param(G, None, 0.005, G, False, id="first reading: nothing to have shrunk from"),
        pytest.param(G, 0.02, 0.005, W, False, id="slow and shrinking: watched"),
        pytest.param(W, 0.005, 0.004, C, False, id="and again: converged"),
        pytest.param(C, 0.004, 0.003, C, True, id="and again: it asks to leave"),
        pytest.param(G, 0.005, 0.006, G, False, id="slow but not shrinking: jitter"),
        pytest.param(W, 0.005, 0.005, W, False, id="slow and the same: jitter"),
        pytest.param(C, 0.005, 0.006, C, False, id="jitter of a converged one is no request"),
        pytest.param(W, 0.005, 0.01, G, False, id="at the threshold: progressing (line 19)"),
        pytest.param(C, 0.005, 0.5, G, False, id="fast again: progressing"),
        pytest.param(W, 0.0, 0.0, W, False, id="standing still is jitter in the paper"),
    ],
)
def test_algorithm_3_moves_between_categories(now, previous, growth, then, asks):
    known = Judged(category=now, growth=previous, trend=Trend())
    assert paper().judge(known, growth, 0.0) is asks
    assert (known.category, known.growth) == (then, growth)


def test_what_stands_still_has_converged_in_ours():
    known = Judged(trend=Trend())
    assert [SpeCon().judge(known, 0.0, 0.0) for _ in range(4)] == [False, False, False, True]


def test_the_earliest_request_is_the_fifth_reading():
    """Baseline, first growth, watched, converged, and then the request (155.9 s in the thesis)."""
    made = Made(paper(), n1="P P P", n2="", due=None)
    made.memory.judged = {}
    made.tracks = {rid("n1a"): heard(1.0, 0.9, 0.899, 0.8985, 0.8984, 0.8984, every=30.0)}
    seen = []
    assert made.decide(at=0.0, trigger=Trigger.STARTED)[1].wake_after == 30.0
    whole = made.tracks[rid("n1a")]
    for i in range(1, 6):
        made.tracks[rid("n1a")] = replace(whole, windows=whole.windows[:i])
        moves, plan = made.decide(at=30.0 * i)
        seen.append((made.judged("n1a").category, moves))
        assert (plan.wake_after, plan.look) == (30.0, ("n1",))
    gone = {"n1a": ("n2", "-M")}
    assert seen == [(G, {}), (G, {}), (W, {}), (C, {}), (C, gone)]


def test_no_job_moves_from_a_node_with_fewer_than_two_other_growing_jobs_but_may_later():
    made = Made(n1="P C?", n2="")
    assert made.moves() == {}
    assert not made.judged("n1b").migrated
    assert Made(paper(unconverged=0.0), n1="P C?", n2="").moves() == {"n1b": ("n2", "-M")}
    anywhere = paper(unconverged_on="cluster")
    assert Made(anywhere, n1="P C?", n2="P", n3="").moves() == {"n1b": ("n3", "-M")}
    assert Made(anywhere, n1="P C?", n2="C", n3="").moves() == {}
    made.memory.due, made.memory.judged[rid("n1b")].growth = AT, 0.005
    made.replicas.append(replica("new", on="n1"))
    made.jobs["new"] = job("new")
    assert made.moves() == {"n1b": ("n2", "-M")}


def test_a_job_without_checkpoints_never_moves():
    made = Made(n1="P P C?", n2="", jobs={"n1c": job("n1c", mode=Mode.NONE)})
    assert made.moves() == {}
    assert made.judged("n1c").category is C


def test_a_request_is_sent_once():
    made = Made(paper(serial=True), n1="P P C? C?", n2="P P P P")
    made.memory.requests, made.memory.free_at = [rid("n1c")], AT + 5
    made.decide()
    assert made.memory.requests == [rid("n1c"), rid("n1d")]


def test_events_between_ticks_change_no_category():
    made = Made(n1="P P C?", n2="", due=AT + 12)
    moves, plan = made.decide(trigger=Trigger.FINISHED)
    assert (moves, plan.wake_after) == ({}, 12.0)
    assert made.decide()[0] == {}  # woken by another policy of the chain


# -- what is measured ----------------------------------------------------------------------------


def growth(policy, track, *, cpu=1.0):
    s = snapshot(at=AT, nodes=(node(cpu=cpu),), jobs=[job("x")], replicas=[replica("x")])
    s.replicas[rid("x")].history = track
    return policy.growth(s.running[0], s)


def test_the_papers_growth_is_that_of_one_interval_over_the_largest_loss():
    assert growth(paper(), heard(2.0, 1.0, every=30.0, start=90.0)) == pytest.approx(0.5)


def test_a_job_in_the_middle_of_an_iteration_answers_with_the_value_before():
    said = heard(2.0, 1.0, None, every=30.0, start=60.0)
    assert growth(paper(), said) == 0.0
    assert growth(SpeCon(), said) is None  # unknown is not the same as converged
    long_ago = heard(2.0, None, 1.0, every=30.0, start=60.0)
    assert growth(paper(), long_ago) == pytest.approx(0.5)
    assert growth(paper(), heard(None, None, 1.0, every=30.0, start=60.0)) is None


def test_ours_judges_by_the_cpu_that_was_used():
    """A quarter of the node and a quarter of the growth: just as far from converged."""
    alone = heard(1.0, 0.9, 0.8, every=30.0, start=60.0, cpu=1.0)
    assert growth(SpeCon(), alone) == pytest.approx(0.1 / 0.18)
    crowded = heard(1.0, 0.9, 0.8, every=30.0, start=60.0, cpu=0.25)
    assert growth(SpeCon(), crowded) == pytest.approx(4 * 0.1 / 0.18)
    assert growth(SpeCon(per_cpu=False), crowded) == pytest.approx(0.1 / 0.18)
    assert growth(SpeCon(), crowded, cpu=4.0) == pytest.approx(16 * 0.1 / 0.18)
    assert growth(SpeCon(), heard(1.0, 0.9, every=30.0, start=90.0, cpu=0.0)) is None


def test_an_adaptive_threshold_follows_the_trend_of_ones_own_growth():
    """Growth that halves with every reading is on its own line; what falls below it is slow."""
    policy, known = SpeCon(adaptive=True), Judged(trend=Trend())
    for i in range(3):
        policy.judge(known, 0.5**i, 30.0 * i)
    assert known.trend.at(90.0) == (pytest.approx(log(0.125)), pytest.approx(0.0))
    policy.judge(known, 0.126, 90.0)
    assert known.category is G  # a little above its line
    asks = [policy.judge(known, value, 120.0 + i) for i, value in enumerate((0.06, 0.02, 0.005))]
    assert (known.category, asks) == (C, [False, False, True])
    policy.judge(known, 0.0, 210.0)  # has no logarithm, and bends no line
    assert known.trend.count == 7


def test_a_ragged_trend_asks_for_a_clearer_fall():
    """Slack 1 - R²: what a poor line predicts must be missed by more."""
    policy = SpeCon(adaptive=True)
    ragged = Judged(trend=Trend())
    for age, value in ((0.0, 1.0), (30.0, 0.2), (60.0, 0.9), (90.0, 0.3), (120.0, 0.2)):
        policy.judge(ragged, value, age)
    assert ragged.category is W
    policy.judge(ragged, 0.15, 150.0)  # less than before, but by less than the slack
    assert ragged.category is W
    policy.judge(ragged, 0.05, 180.0)
    assert ragged.category is C


def test_a_job_that_was_away_for_long_has_a_threshold_all_the_same():
    policy, known = SpeCon(adaptive=True), Judged(trend=Trend())
    for i in range(3):
        policy.judge(known, 2.0**i, 1.0 * i)
    policy.judge(known, 1.0, 1e6)
    assert known.category is W


def test_without_three_readings_the_adaptive_threshold_is_the_fixed_one():
    known = Judged(trend=Trend())
    for value in (0.02, 0.005):
        SpeCon(adaptive=True).judge(known, value, 30.0)
    assert known.category is W


def test_a_line_through_equal_values_explains_them_all():
    line = Trend()
    for x in (1.0, 2.0, 3.0):
        line.add(x, 5.0)
    assert line.at(4.0) == (5.0, 0.0)


# -- Algorithm 4 ---------------------------------------------------------------------------------


def test_the_scores_and_the_target_of_figure_6_22():
    """Thesis 6.2: 6, 3.5, 4 and 11 with Job-1 itself, which goes to the second node."""
    made = Made(n1="P P P", n2="P W", n3="P P", n4="P P P P P C?")
    cluster = _Cluster(made.policy, made.snapshot(), made.memory)
    assert [cluster._score(n) for n in ("n1", "n2", "n3", "n4")] == [6, 3.5, 4, 11]
    assert made.moves() == {"n4f": ("n2", "-M")}


def test_a_job_on_the_least_loaded_node_stays_and_is_not_considered_again():
    made = Made(n1="P P C?", n2="P P P P")
    assert made.moves() == {}
    assert (made.judged("n1c").migrated, made.judged("n1c").answered_at) == (True, AT)
    made.memory.due = AT
    made.replicas = [r for r in made.replicas if r.node == "n1"]
    assert made.moves() == {}


def test_of_equal_nodes_the_least_used_is_chosen_and_then_the_first():
    made = Made(n1="P P P C?", n2="P", n3="P")
    assert made.moves() == {"n1d": ("n2", "-M")}
    made = Made(n1="P P P C?", n2="P", n3="P")
    made.replicas[4].usage = Usage(cpu=0.9)
    made.replicas[5].usage = Usage(cpu=0.4)
    assert made.moves() == {"n1d": ("n3", "-M")}


def test_hysteresis_keeps_a_job_that_would_find_as_many_jobs_there():
    """4 and 4 without the mover itself: the paper moves it, ours does not."""
    assert Made(n1="P P C?", n2="P P").moves() == {"n1c": ("n2", "-M")}
    assert Made(paper(hysteresis=True), n1="P P C?", n2="P P").moves() == {}
    assert Made(paper(hysteresis=True), n1="P P C?", n2="P W").moves() == {"n1c": ("n2", "-M")}


def test_a_node_without_room_or_down_is_no_target():
    asking = {"n1c": job("n1c", cpu=0.5), "n2a": job("n2a", cpu=0.8)}
    nodes = [node("n1"), node("n2"), node("n3", up=False)]
    made = Made(n1="P P C?", n2="C*", jobs=asking, nodes=nodes)
    assert made.moves() == {}
    assert made.judged("n1c").migrated


def test_the_next_request_sees_what_the_last_one_left():
    """7 and 4: it goes; 6 and 5: it goes; 5 and 6: it stays."""
    moves = Made(n1="P P C? C? C?", n2="P P").moves()
    assert moves == {"n1c": ("n2", "-M"), "n1d": ("n2", "-M")}


def test_a_serial_manager_takes_its_time_for_each_answer():
    made = Made(paper(serial=True), n1="P P C? C?", n2="")
    moves, plan = made.decide()
    assert moves == {"n1c": ("n2", "-M")}
    assert (plan.wake_after, plan.look) == (pytest.approx(1.1), ())
    made.replicas[2] = replace(made.replicas[2], phase=Phase.MIGRATING, bound_for="n2")
    moves, plan = made.decide(at=AT + 0.5, trigger=Trigger.ARRIVED)
    assert (moves, plan.wake_after) == ({}, pytest.approx(0.6))
    moves, plan = made.decide(at=AT + 1.1)
    assert moves == {"n1d": ("n2", "-M")}
    assert (plan.wake_after, plan.look) == (pytest.approx(28.9), ("n1",))
    stays = Made(paper(serial=True), n1="P P C? C?", n2="P P P P")
    stays.decide()
    assert stays.memory.free_at == pytest.approx(AT + 0.1)


def test_a_moving_job_counts_on_its_target():
    made = Made(n1="P P C? P", n2="P")
    made.replicas[3] = replace(made.replicas[3], phase=Phase.MIGRATING, bound_for="n2")
    cluster = _Cluster(made.policy, made.snapshot(), made.memory)
    assert (cluster._score("n1"), cluster._score("n2")) == (5, 4)


def test_a_gang_moves_one_at_a_time_and_a_request_of_the_gone_is_dropped():
    both = job("gang", tasks=(Task(name="main", replicas=2, least=2, most=2),))
    made = Made(n1="P P", n2="", jobs={"gang": both})
    made.replicas += [replica("gang", on="n1"), replica("gang", on="n1", index=1)]
    for i in range(2):
        made.memory.judged[ReplicaId.of("gang", "main", i)] = Judged(
            category=C, growth=0.005, trend=Trend()
        )
        made.tracks[ReplicaId.of("gang", "main", i)] = SLOW
    made.memory.requests = [ReplicaId("gone/main-0")]
    assert made.moves() == {"gang": ("n2", "-M")}
    assert made.judged("gang").migrated
    assert not made.memory.judged["gang/main-1"].migrated


# -- Algorithm 5 ---------------------------------------------------------------------------------


def test_the_latest_to_converge_goes_to_an_idle_node():
    made = Made(n1="C* C*", n2="C* C*", n3="", n4="")
    assert made.moves() == {"n2b": ("n3", "-R"), "n2a": ("n4", "-R")}
    assert made.judged("n2b").rebalanced


def test_a_donor_is_not_emptied_in_ours():
    checked = Made(paper(donor_check=True), n1="C* C*", n2="C* C*", n3="", n4="")
    assert checked.moves() == {"n2b": ("n3", "-R"), "n1b": ("n4", "-R")}


def test_without_an_idle_node_those_short_by_two_are_filled_from_outside_them():
    made = Made(n1="C* C* C* C* C*", n2="C*", n3="C* C* C*")
    assert made.moves() == {"n3c": ("n2", "-R")}
    assert Made(n1="C* C* C*", n2="C*", n3="C* C*").moves() == {}


def test_fewer_jobs_than_nodes_help_an_idle_node_only_if_the_mean_is_rounded_up():
    assert Made(n1="C* C*", n2="", n3="").moves() == {}
    moves = Made(paper(balance="ceil"), n1="C* C*", n2="", n3="").moves()
    assert moves == {"n1b": ("n2", "-R"), "n1a": ("n3", "-R")}


def test_no_job_is_rebalanced_twice():
    made = Made(n1="C* C*", n2="")
    for name in ("n1a", "n1b"):
        made.judged(name).rebalanced = True
    assert made.moves() == {}


def test_rebalancing_waits_until_all_have_converged():
    """Thesis 6.2.3: not for answers to requests that most never send."""
    assert Made(n1="C* C", n2="").moves() == {"n1b": ("n2", "-R")}
    assert Made(n1="C C", n2="").moves() == {"n1b": ("n2", "-R")}
    assert Made(n1="C* W", n2="").moves() == {}
    made = Made(n1="C* C*", n2="")
    made.replicas.append(replica("new", on="n1", phase=Phase.STARTING))
    made.jobs["new"] = job("new")
    assert made.moves() == {}


def test_rebalancing_may_wait_until_every_request_is_answered():
    """The other reading, Algorithm 5, line 1: all are `migrated`."""
    assert Made(paper(rebalance="migrated"), n1="C* C", n2="").moves() == {}


def test_the_last_to_converge_need_not_be_the_last_to_be_answered():
    for policy, last in ((paper(), "n1a"), (paper(rebalance="migrated"), "n1b")):
        made = Made(policy, n1="C* C*", n2="")
        made.judged("n1a").converged_at = 50.0
        assert made.moves() == {last: ("n2", "-R")}


def test_a_job_is_converged_from_the_reading_that_marks_it():
    made = Made(n1="W? P P", n2="P P P")
    made.decide()
    assert (made.judged("n1a").category, made.judged("n1a").converged_at) == (C, AT)
    made.tracks[rid("n1a")] = heard(1.0, 0.9, 0.8999, 0.89989, every=30.0, start=AT - 90)
    made.decide(at=AT + 30)
    assert (made.judged("n1a").category, made.judged("n1a").converged_at) == (C, AT)


def test_a_job_without_checkpoints_neither_hinders_rebalancing_nor_takes_part():
    made = Made(n1="C* C C*", n2="", jobs={"n1b": job("n1b", mode=Mode.NONE)})
    assert made.moves() == {"n1c": ("n2", "-R")}
    stuck = {n: job(n, mode=Mode.NONE) for n in ("n1a", "n1b")}
    assert Made(n1="C C", n2="", jobs=stuck).moves() == {}


def test_rebalancing_needs_room():
    made = Made(
        n1="C* C*",
        n2="",
        jobs={n: job(n, cpu=2.0) for n in ("n1a", "n1b")},
        nodes=[node("n1", cpu=4.0), node("n2")],
    )
    assert made.moves() == {}


# -- placement, time and memory ------------------------------------------------------------------


def pin(policy, *, new="new", cpu=0.0):
    """n1a was started on n1 and has been moved to n2; a new job arrives."""
    made = Made(policy, n1="", n2="C*", due=AT + 20)
    made.memory.homes = {rid("n2a"): "n1"}
    made.jobs[new] = job(new, phase=Phase.PENDING, cpu=cpu)
    plan = policy.decide(made.snapshot(trigger=Trigger.ARRIVED), made.memory)[0]
    return made, [d.where[0][1] for d in plan.decisions if isinstance(d, Place)]


def test_pinned_jobs_go_where_they_would_have_gone_had_nothing_been_moved():
    assert pin(SpeCon(**PAPER))[1] == ["n2"]
    assert pin(SpeCon())[1] == []  # `spread` places it, by what is there now


def test_a_pinned_place_without_room_is_left_to_the_next_policy():
    policy = SpeCon(**PAPER)
    made = Made(policy, n1="", n2="C*", due=AT + 20, jobs={"n2a": job("n2a", cpu=0.8)})
    made.memory.homes = {rid("n2a"): "n1"}
    made.jobs["new"] = job("new", phase=Phase.PENDING, cpu=0.5)
    plan, _ = policy.decide(made.snapshot(trigger=Trigger.ARRIVED), made.memory)
    assert plan.decisions == ()
    chained = build("specon:paper")
    memory = chained.begin()
    memory.members[0] = made.memory
    plan, _ = chained.decide(made.snapshot(trigger=Trigger.ARRIVED), memory)
    assert [d.where for d in plan.decisions] == [((rid("new"), "n1"),)]


def test_a_job_back_in_the_queue_has_no_home():
    made, _ = pin(SpeCon(**PAPER))
    made.replicas = [replace(made.replicas[0], node=None, phase=Phase.PENDING)]
    made.decide(trigger=Trigger.NODE)
    assert made.memory.homes == {}


def test_without_running_jobs_nothing_is_due():
    made = Made(n1="")
    assert made.decide()[1] is CALM
    assert made.memory.due is None
    pinned = Made(SpeCon(**PAPER), n1="")
    pinned.jobs["new"] = job("new", phase=Phase.PENDING)
    plan = pinned.decide(trigger=Trigger.ARRIVED)[1]
    assert (len(plan.decisions), plan.wake_after) == (1, None)


def test_a_tick_that_an_event_has_overtaken_comes_at_once():
    made = Made(n1="P P C?", n2="", due=AT)
    moves, plan = made.decide(trigger=Trigger.ARRIVED)
    assert (moves, plan.wake_after, plan.look) == ({}, 0.0, ("n1",))


def test_what_is_known_outlasts_a_restart_and_ends_with_the_job():
    made = Made(n1="C*", n2="P")
    made.replicas[0] = replace(made.replicas[0], node=None, phase=Phase.PENDING)
    del made.jobs["n2a"]
    made.replicas.pop()
    made.replicas.append(replica("new", on="n1"))
    made.jobs["new"] = job("new")
    made.decide()
    assert set(made.memory.judged) == {rid("n1a"), rid("new")}
    assert made.judged("n1a").migrated


def test_the_memory_goes_through_the_journal():
    made = Made(SpeCon(**PAPER), n1="P P C? C?", n2="C*")
    made.decide()
    assert made.memory.requests
    assert from_plain(json.loads(json.dumps(to_plain(made.memory)))) == made.memory


def test_its_name_means_moves_then_placement_then_fair_sharing():
    chain = build("specon:paper,threshold=0.05,interval=20")
    assert [m.name for m in chain.members] == ["specon", "spread", "fair"]
    policy = chain.members[0]
    assert (policy.threshold, policy.interval, policy.serial, policy.balance) == (
        0.05, 20.0, True, "floor",
    )  # fmt: skip
    assert build("specon:adaptive=on").members[0].adaptive
