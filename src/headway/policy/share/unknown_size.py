"""Why `headway` does not know the size of a job yet, in words."""

from headway.core.estimate.job_size import KNOWN_AFTER, SizeEstimate
from headway.core.fairness.allocation import SOON
from headway.core.model.job import JobSpec
from headway.core.model.units import Cores, CoreSeconds


def why_unknown(
    estimate: SizeEstimate,
    under_fair: CoreSeconds,
    spec: JobSpec,
    rate: Cores,
    *,
    alone: bool,
    unseen: bool,
) -> str:
    """Return the reason of the share of a job of unknown size, which gets `rate`. `under_fair`:
    what it would have attained under fair sharing. `alone`: no other job needs a decision.
    `unseen`: it is not known yet how many cores it can use.
    """
    if alone:
        return "alone on its node"
    if estimate.wrong:
        why = "it needs more CPU than estimated"
    elif unseen:
        why = "how many cores it can use is not known yet"
    elif spec.total_steps is not None:
        why = f"its length is known after {KNOWN_AFTER:.0%} of its steps"
    else:
        why = "its length is unknown (set totalSteps)"
    if rate <= 0:
        return f"{why}: waits for jobs that go first"
    lacks = under_fair - estimate.attained > SOON
    return f"{why}: {'catches up with its fair share' if lacks else 'fair share'}"
