"""Real platforms. Skips live here and nowhere else: a tier whose platform is missing says so."""

import os

import pytest

from headway.backend.local.cgroup import Cgroup1, Cgroup2, Unavailable

KINDS = {"cgroup1": Cgroup1, "cgroup2": Cgroup2}


@pytest.fixture(params=["cgroup", "nice"])
def enforcement(request, monkeypatch):
    """Each kind of enforcement that this machine has; cgroups of either version count as one."""
    kind = request.param
    if kind == "cgroup":
        kind = next((k for k in KINDS if _has(k)), None)
        if kind is None:
            pytest.skip("no cgroup is ours to use here: run as root, or in a delegated scope")
    monkeypatch.setenv("HEADWAY_ENFORCEMENT", kind)
    return kind


def _has(kind):
    try:
        found = KINDS[kind](f"probe-{os.getpid()}")
    except Unavailable:
        return False
    found.close()
    return True
