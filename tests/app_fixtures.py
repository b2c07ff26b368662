"""Fixtures that run commands in this process and return their output and exit code."""

import sys
from dataclasses import replace

import pytest

from fake_cluster import FakeCluster, Headway
from headway.backend.clock import Clock
from headway.backend.kubernetes.platform.platform import CONFIG, KubernetesPlatform
from headway.backend.live import LiveBackend
from headway.cli import main
from headway.sim import compare


class Ran:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def headway(monkeypatch, capsys):
    def run(*words):
        monkeypatch.setattr(sys, "argv", ["headway", *map(str, words)])
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        found = capsys.readouterr()
        return Ran(code, found.out, found.err)

    return run


@pytest.fixture
def one_core(monkeypatch):
    """Simulations of several seeds in this process: to start others takes longer than they do."""
    monkeypatch.setattr(compare, "sched_getaffinity", lambda _: {0})


@pytest.fixture
def workload(tmp_path):
    """Write a workload file; the head is given."""

    def write(body, name="w.yaml", head="apiVersion: headway.dev/v1alpha1\nkind: Workload\n"):
        path = tmp_path / name
        path.write_text(head + body, encoding="utf-8")
        return path

    return write


@pytest.fixture
def fake():
    made = FakeCluster()
    yield made
    made.close()


@pytest.fixture
def backends(fake, tmp_path):
    """Those that a test starts; one after the other on one cluster, as leaders are."""
    made = []

    def start(namespace="", **config):
        jobs, clock = {}, Clock()
        platform = KubernetesPlatform(fake.api(), jobs, clock, namespace=namespace)
        config = replace(CONFIG, **{"retry_removal": 0.2, "retry_command": 0.2, **config})
        made.append(LiveBackend(platform, tmp_path, jobs, clock, endless=True, config=config))
        return made[-1]

    yield start
    for each in made:
        each.close()


@pytest.fixture
def leader(backends):
    """The backend on a cluster in memory, and the loop over it."""
    return Headway(backends())
