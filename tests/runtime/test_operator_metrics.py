"""Probes and metrics of an operator, over HTTP."""

from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from fake_cluster import Headway, all_bound
from headway.runtime import operator_metrics
from headway.runtime.operator_metrics import Measured, Metrics, serve


@pytest.fixture
def served():
    metrics = Metrics()
    server = serve(metrics, 0)

    def get(path):
        try:
            with urlopen(f"http://127.0.0.1:{server.server_port}{path}") as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            with error:
                return error.code, ""

    yield metrics, get
    server.shutdown()
    server.server_close()


def test_an_operator_is_ready_when_it_stands_by_or_knows_the_cluster(served):
    metrics, get = served
    assert get("/readyz")[0] == 503
    metrics.ready = True
    assert get("/readyz") == (200, "ok\n")
    assert get("/nothing")[0] == 404


def test_a_leader_whose_loop_is_stuck_is_not_healthy(served, monkeypatch):
    metrics, get = served
    assert get("/healthz")[0] == 200
    monkeypatch.setattr(operator_metrics, "STUCK", -1.0)
    assert get("/healthz")[0] == 200, "a standby has no loop"
    metrics.leads = True
    assert get("/healthz")[0] == 503


def test_decisions_cycles_and_calls_are_counted(fake, backends, served):
    metrics, get = served
    live = backends()
    leader = Headway(Measured(live, metrics))
    fake.submit("x")
    leader.until(lambda: all_bound(fake, 1))
    leader.until(lambda: metrics.jobs)
    metrics.api = lambda: dict(live.platform.cluster.api.calls)
    metrics.resizes["refused"] += 1
    _, text = get("/metrics")
    assert 'headway_decisions_total{kind="Place",outcome="Started"} 1' in text
    assert 'headway_jobs{phase="starting"} 1' in text
    assert 'headway_api_requests_total{verb="POST",result="2xx"}' in text
    assert 'headway_resizes_total{outcome="refused"} 1' in text
    assert metrics.cycles > 0
    assert metrics.ready


def test_durations_of_cycles_are_a_histogram(served):
    metrics, get = served
    for seconds in (0.005, 0.02, 0.5, 20.0):
        metrics.took(seconds)
    _, text = get("/metrics")
    name = "headway_cycle_duration_seconds"
    for bound, count in (("0.01", 1), ("0.03", 2), ("0.3", 2), ("1", 3), ("10", 3), ("+Inf", 4)):
        assert f'{name}_bucket{{le="{bound}"}} {count}\n' in text
    assert f"{name}_sum 20.525\n{name}_count 4\n" in text
