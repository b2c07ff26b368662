"""The reason of the share of a job whose size is unknown."""

import pytest

from headway.core.estimate.job_size import SizeEstimate
from headway.core.model.job import JobSpec, Task
from headway.policy.share.unknown_size import why_unknown

UNKNOWN = "its length is unknown (set totalSteps)"
UNSAID, SAID = JobSpec(tasks=(Task(),)), JobSpec(tasks=(Task(),), total_steps=100.0)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({}, f"{UNKNOWN}: fair share"),
        ({"spec": SAID}, "its length is known after 2% of its steps: fair share"),
        ({"unseen": True}, "how many cores it can use is not known yet: fair share"),
        ({"wrong": True}, "it needs more CPU than estimated: fair share"),
        ({"under_fair": 9.0}, f"{UNKNOWN}: catches up with its fair share"),
        ({"rate": 0.0}, f"{UNKNOWN}: waits for jobs that go first"),
        ({"alone": True, "spec": SAID}, "alone on its node"),
    ],
)  # fmt: skip
def test_the_reason_says_why_the_size_is_unknown_and_what_the_job_gets(given, reason):
    default = {"under_fair": 5.0, "spec": UNSAID, "rate": 0.5, "alone": False, "unseen": False}
    how = default | given
    estimate = SizeEstimate(attained=5.0, wrong=how.pop("wrong", False))
    assert why_unknown(
        estimate, how.pop("under_fair"), how.pop("spec"), how.pop("rate"), **how
    ) == (reason)
