"""The link between virtual nodes, as a user writes it."""

import pytest
from pydantic import ValidationError

from headway.errors import ConfigError
from headway.runtime.targets import Docker, Machine, find_target
from headway.spec.workload import make_workload

JOB = {"name": "x", "model": "ps-sync"}


def test_a_link_has_a_bandwidth_and_a_delay_with_units():
    link = make_workload(jobs=[JOB], link={"bandwidth": "2Mi", "delay_s": "5ms"}).link
    assert (link.bandwidth, link.delay_s) == (2.0**21, 0.005)


@pytest.mark.parametrize(
    ("link", "why"),
    [
        ({}, "give bandwidth, delay_s or both"),
        ({"bandwidth": "2Mbit"}, "unknown unit 'Mbit'"),
        ({"bandwidth": 1}, "greater than or equal to 1024"),
        ({"delay_s": "2m"}, "less than or equal to 60"),
    ],
)
def test_a_link_without_effect_or_out_of_bounds_is_refused(link, why):
    with pytest.raises(ValidationError) as error:
        make_workload(jobs=[JOB], link=link)
    assert why in str(error.value)


def test_a_link_is_for_virtual_nodes_only():
    made = make_workload(jobs=[JOB], link={"delay_s": "5ms"})
    assert isinstance(find_target(None, made), Machine)
    with pytest.raises(ConfigError, match="virtual nodes of one machine"):
        find_target(Docker(), made)
