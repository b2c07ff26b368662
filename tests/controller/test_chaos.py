"""Whatever happens in whatever order: one attempt at a time, nothing lost, nothing stuck."""

import os

import pytest
from chaos import STEPS, World
from hypothesis import given, settings
from hypothesis import strategies as st

SEQUENCES = int(os.environ.get("HEADWAY_SEQUENCES", "500"))


@pytest.mark.untraced
@settings(max_examples=SEQUENCES, deadline=None)
@given(
    st.booleans(),
    st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 59)), min_size=20, max_size=100),
)
def test_jobs_run_once_end_once_and_never_hang(reserves, steps):
    world = World(reserves=reserves)
    for step, i in steps:
        step(world, i)
    world.drain()
    assert not [k for k, p in world.processes.items() if p.running]
    assert not world.waiting, "room is held for ever"
