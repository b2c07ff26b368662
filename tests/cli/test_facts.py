"""What is known of a job, in words."""

from headway.cli.facts import eta, facts_lines, moment, note, with_clock
from headway.runtime.job_facts import JobFacts

KNOWN = JobFacts(
    at_s=10.0, phase="running", value=0.41234, found='loss in out.log, line "loss 1.0"', step=30.0,
    total_steps=100.0, attained=3.0, size=10.0, size_error=0.05,
    size_from="measured from its steps", demand=1.0, guarantee_s=50.0, eta_s=20.0,
    reason="about 7 s of CPU left; runs first", decided_s=9.0,
)  # fmt: skip
UNKNOWN = JobFacts(at_s=60.0, phase="running", attained=2.5, reason="fair share")


def test_all_that_is_known_is_listed():
    assert facts_lines(KNOWN, None) == [
        ("metric", '0.4123 (loss in out.log, line "loss 1.0")'),
        ("step", "30/100"),
        ("size", "about 10.0 core-seconds (measured from its steps, within 5%)"),
        ("demand", "up to 1.00 cores"),
        ("guarantee", "by 50 s (in 40 s)"),
        ("ETA", "20 s (in 10 s)"),
        ("share", "about 7 s of CPU left; runs first"),
    ]


def test_what_is_unknown_says_what_to_set():
    (metric, size, share) = facts_lines(UNKNOWN, None)
    assert "set metric.name or reports.pattern, and totalSteps, or report" in metric[1]
    assert size == ("size", "unknown; 2.5 core-seconds used")
    assert share == ("share", "fair share")
    assert (eta(UNKNOWN), eta(None)) == ("", "")


def test_of_a_job_that_does_not_run_yet_nothing_is_missing():
    pending = JobFacts(at_s=3.0, phase="pending", reason="not enough memory")
    assert facts_lines(pending, None) == [("waits", "not enough memory")]


def test_a_note_has_the_guarantee_once():
    assert note(KNOWN, None).startswith(
        "about 7 s of CPU left; runs first; guaranteed to finish by 50 s · size about 10.0"
    )
    assert note(UNKNOWN, None) == "fair share"


def test_seconds_become_a_time_of_day():
    began = 1_700_000_000.0
    due = moment(50.0, began)
    assert with_clock("waits for x; guaranteed to finish within 40 s", 10.0, began) == (
        f"waits for x; guaranteed to finish by {due}"
    )
    assert len(due) == len("14:05:10")


def test_an_eta_by_the_guarantee_is_an_upper_bound():
    assert eta(KNOWN) == "10 s"
    bound = JobFacts(at_s=10.0, phase="running", guarantee_s=50.0, eta_s=50.0)
    assert eta(bound) == "≤40 s"
