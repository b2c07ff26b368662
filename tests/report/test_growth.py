"""Growth efficiency by resource in the report of a run."""

import pytest

from headway.core.model.report import Report, Usage
from headway.core.model.snapshot import Observation
from headway.core.model.units import ReplicaId
from headway.report.growth import growth_table, mean_efficiencies
from making import job


def cycle(at, value, name="x", **used):
    report = Report(replica=ReplicaId(f"{name}/main-0"), since=at - 10.0, at=at, value=value,
                    usage=Usage(**used))  # fmt: skip
    return {"seen": Observation(at=at, jobs=(job(name),), reports=(report,))}


def test_the_report_has_the_mean_of_each_resource_that_is_counted():
    """Drops of 1.0 and 0.5 in ten seconds each, over ranges of 0.9 and 1.4."""
    cycles = [
        cycle(10.0 * (i + 1), v, cpu=0.5, network_io=2.0**20) for i, v in enumerate((3, 2, 1.5))
    ]
    found = mean_efficiencies([*cycles, cycle(10.0, 1.0, "y", cpu=1.0)])
    rate = (1.0 / 0.9 + 0.5 / 1.4) / 10 / 2
    assert found == {"x": {"cpu": pytest.approx(2 * rate, rel=0.05),
                           "network_io": pytest.approx(rate, rel=0.05)}}  # fmt: skip
    shown = growth_table(found)
    assert "per core" in shown
    assert "network I/O" in shown
    assert "GiB" not in shown
