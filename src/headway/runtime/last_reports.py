"""The last report of each running replica, from the lines of a journal."""

from collections.abc import Iterable
from typing import Any

from headway.core.model.job import Phase
from headway.core.model.snapshot import Observation
from headway.core.model.units import CoreSeconds, ReplicaId, Seconds

Reported = dict[ReplicaId, tuple[Seconds, CoreSeconds]]
"""Time of the last report of each running replica, and the CPU that its process had used."""


def reported(lines: Iterable[dict[str, Any]]) -> Reported:
    """Return the time of the last report of each running replica, and the CPU of its process until
    then.
    """
    found: Reported = {}
    for line in lines:
        if "reported" in line:
            found = {ReplicaId(name): (at, cpu) for name, (at, cpu) in line["reported"].items()}
        else:
            add_reports(found, line["seen"])
    return found


def add_reports(found: Reported, seen: Observation) -> None:
    for replica in seen.replicas:
        if replica.phase is not Phase.RUNNING:
            found.pop(replica.id, None)  # its next report is of another process
    for r in seen.reports:
        before = 0.0 if r.restarted else found.get(r.replica, (r.since, 0.0))[1]
        used = r.usage.cpu * (r.at - r.since) if r.usage else 0.0
        found[r.replica] = r.at, before + used
