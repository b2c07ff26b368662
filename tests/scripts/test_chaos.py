"""The oracle of `scripts/chaos` finds what it is there to find."""

import pytest
from campaign import oracle, server
from campaign.job import weights
from campaign.places import Place, opened

STEPS = 3


def told(*events):
    """Events of the only replica of job x: `start 1`, `done 1`, `double 2`."""
    found = []
    for at, text in enumerate(events):
        event, attempt = text.split()
        more = {"weights": weights(STEPS)} if event == "done" else {}
        found.append({"event": event, "attempt": int(attempt), "at": float(at), **more})
    return {"x.worker-0": found}


def judged(events, *forgiven):
    return oracle.judge(events, {"x": STEPS}, set(forgiven))


def test_a_job_that_is_interrupted_and_then_succeeds_is_fine():
    assert judged(told("start 1", "start 2", "done 2")) == []


@pytest.mark.parametrize(
    ("events", "found"),
    [
        (("start 1",), "never succeeded"),
        (("start 1", "done 1", "start 2"), "ran again after it had succeeded"),
        (("start 1", "done 1", "start 2", "done 2"), "ran again after it had succeeded"),
        (("start 1", "double 2", "start 2", "done 1"), "two attempts ran at the same time"),
        (("start 1", "start 1", "done 1"), "attempt 1 was started twice"),
    ],
)
def test_violations_are_found_in_the_ledger(events, found):
    assert any(found in each for each in judged(told(*events)))


def test_a_success_that_the_platform_cannot_know_of_may_be_repeated():
    assert judged(told("start 1", "done 1", "start 2", "done 2"), "x") == []


def test_other_weights_are_found():
    events = told("start 1", "done 1")
    events["x.worker-0"][-1]["weights"] += 1
    assert judged(events) == ["x: weights differ from an undisturbed run"]


def test_a_descriptor_that_a_job_inherits_is_found():
    events = told("start 1", "done 1")
    events["x.worker-0"][0]["inherited"] = [5]
    assert judged(events) == ["x.worker-0: inherited descriptors of Headway"]


def test_a_place_is_removed_with_what_is_in_it():
    with opened(Place) as place:
        (place.data / "file").write_text("x")
    assert not place.home.exists()


def server_ledger(*more):
    whole = [f"j{i} {what}" for i in range(server.EACH) for what in ("began", "ended")]
    return [*whole, *more]


TOLD = {str(i): f"job-{i}" for i in range(server.EACH)}
ENDED = dict.fromkeys(TOLD.values(), "succeeded")


@pytest.mark.parametrize(
    ("told", "jobs", "ledger", "found"),
    [
        (TOLD, {**ENDED, "job-99": "succeeded"}, server_ledger(), "9 jobs and 8 answers"),
        (TOLD, {k: v for k, v in ENDED.items() if k != "job-3"}, server_ledger(), "job-3 is lost"),
        (TOLD, {**ENDED, "job-3": "failed"}, server_ledger(), "job-3 has failed"),
        (TOLD, ENDED, server_ledger("j3 began"), "job-3: began 2 times, ended 1"),
        (TOLD, ENDED, server_ledger("j3 double"), "two attempts ran at the same time"),
        ({**TOLD, "3": "job-4"}, ENDED, server_ledger()[:6], "began 0 times, ended 0"),
    ],
)
def test_violations_of_a_server_are_found(told, jobs, ledger, found):
    assert any(found in each for each in server.judge(told, jobs, ledger, "both", set()))


def test_after_a_power_cut_only_what_had_not_ended_on_the_disk_may_run_again():
    again = server_ledger("j3 began", "j3 ended")
    assert server.judge(TOLD, ENDED, server_ledger(), "both", set()) == []
    assert server.judge(TOLD, ENDED, again, "power", set()) == []
    assert server.judge(TOLD, ENDED, again, "power", {"job-3"}) != []
    assert server.judge(TOLD, ENDED, [*again, "j3 double"], "power", set()) != []
