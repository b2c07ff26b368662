"""What is known of a job, in words: for `headway explain` and the live display."""

import re
from datetime import datetime
from typing import TYPE_CHECKING

from headway.core.model.units import Seconds

if TYPE_CHECKING:
    from headway.runtime.job_facts import JobFacts

NOTHING_FOUND = (
    "no metric found in its output: set metric.name or reports.pattern, and totalSteps, "
    "or report through the SDK"
)
PASSING = ("ETA", "share", "waits")
"""Labels of what no longer matters when a job has ended."""
_WITHIN = re.compile(r"\bwithin (\d+) s\b")
_SUBMITTED = re.compile(r"\bis submitted at (\d+) s\b")


def moment(at: Seconds, began: float | None) -> str:
    """Return a time of a run as a time of day; in a simulation, in seconds.

    >>> moment(40.0, None)
    '40 s'
    """
    if began is None:
        return f"{at:.0f} s"
    return datetime.fromtimestamp(began + at).astimezone().strftime("%H:%M:%S")


def with_clock(reason: str, at: Seconds, began: float | None) -> str:
    """Return a reason given at a time, with a time of day instead of a number of seconds.

    >>> with_clock("guaranteed to finish within 40 s", 10.0, None)
    'guaranteed to finish by 50 s'
    >>> with_clock("is submitted at 40 s", 10.0, None)
    'is submitted at 40 s'
    """
    reason = _SUBMITTED.sub(
        lambda found: f"is submitted at {moment(float(found[1]), began)}", reason
    )
    return _WITHIN.sub(lambda found: f"by {moment(at + float(found[1]), began)}", reason)


def facts_lines(facts: "JobFacts", began: float | None) -> list[tuple[str, str]]:
    """Return what is known as labels and texts."""
    lines = [("metric", _metric(facts)), ("step", steps(facts.step, facts.total_steps))]
    if facts.size is not None or facts.phase == "running":
        lines.append(("size", size(facts)))
    if facts.demand is not None:
        lines.append(("demand", f"up to {facts.demand:.2f} cores"))
    lines.append(("growth", growth(facts.growth)))
    for label, at in (("guarantee", facts.guarantee_s), ("ETA", facts.eta_s)):
        if at is not None:
            by = "" if label == "ETA" and at != facts.guarantee_s else "by "
            lines.append((label, f"{by}{moment(at, began)} ({_from_now(at - facts.at_s)})"))
    label = "waits" if facts.phase == "pending" else "share"
    lines.append((label, with_clock(facts.reason, facts.decided_s, began)))
    return [(label, text) for label, text in lines if text]


def note(facts: "JobFacts", began: float | None) -> str:
    """Return why a job has its share, its guarantee and its size, in one line."""
    parts = [with_clock(facts.reason, facts.decided_s, began)]
    if facts.guarantee_s is not None and "guaranteed" not in facts.reason:
        parts[0] += f"; guaranteed to finish by {moment(facts.guarantee_s, began)}"
    parts.append(f"size {size(facts)}" if facts.size is not None else "")
    parts.append(facts.found)
    return " · ".join(part for part in parts if part)


def eta(facts: "JobFacts | None") -> str:
    """Return the time left; `≤` if it is by its guarantee."""
    if facts is None or facts.eta_s is None:
        return ""
    bound = "≤" if facts.eta_s == facts.guarantee_s else ""
    return f"{bound}{max(0.0, facts.eta_s - facts.at_s):.0f} s"


def steps(step: float | None, total: float | None) -> str:
    """Return a step and its total.

    >>> steps(0.116667, 5.0), steps(1234567.0, None), steps(None, 5.0)
    ('0.12/5', '1234567', '')
    """
    if step is None:
        return ""
    return "/".join(f"{n:.2f}".rstrip("0").rstrip(".") for n in (step, total) if n)


def size(facts: "JobFacts") -> str:
    if facts.size is None:
        return f"unknown; {facts.attained:.1f} core-seconds used"
    within = f"within {facts.size_error:.0%}" if facts.size_error else ""
    about = ", ".join(filter(None, (facts.size_from, within)))
    return f"about {facts.size:.1f} core-seconds" + (f" ({about})" if about else "")


PER = {"cpu": "core", "memory": "GiB", "block_io": "MiB/s of disk I/O",
       "network_io": "MiB/s of network I/O"}  # fmt: skip


def growth(by_resource: dict[str, float]) -> str:
    """Return the growth efficiency by resource.

    >>> growth({"cpu": 0.0123, "memory": 0.2})
    '0.0123/s per core, 0.2/s per GiB'
    """
    return ", ".join(f"{value:.3g}/s per {PER[name]}" for name, value in by_resource.items())


def _metric(facts: "JobFacts") -> str:
    if facts.value is None:
        return NOTHING_FOUND if facts.step is None and facts.phase == "running" else ""
    return f"{facts.value:.4g}" + (f" ({facts.found})" if facts.found else "")


def _from_now(seconds: Seconds) -> str:
    return f"in {seconds:.0f} s" if seconds >= 0 else f"{-seconds:.0f} s ago"
