"""What a leader sets up for reports, while the API server declines some of it for a time."""

import socket
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from patience import wait_for

from headway.backend.kubernetes.reports import service
from headway.backend.kubernetes.reports.service import LEADER, ReportService

NAME, HOME, AGENTS = "headway-reports", "headway", "headway-agent"
LATER = (503, "the API server restarts")


@pytest.fixture
def there(fake, monkeypatch):
    """The objects of an installation."""
    monkeypatch.setattr(service, "AGAIN", 0.05)
    monkeypatch.setattr(service, "LONGEST", 0.1)
    for kind, space in (("secrets", HOME), ("configmaps", HOME), ("configmaps", AGENTS)):
        fake.put(kind, {"metadata": {"name": NAME, "namespace": space}}, space)
    me = {"metadata": {"name": "me", "namespace": HOME}, "spec": {}, "status": {}}
    fake.put("pods", me, HOME)
    return fake


def leader():
    receiver = SimpleNamespace(agents="", routes=dict)
    platform = SimpleNamespace(endpoints=[], receiver=receiver)
    platform.trust = platform.endpoints.append
    return platform


def trusted(platform):
    """The certificate that pods are told now."""
    return platform.endpoints[-1].certificate


def port_of(server):
    return server.getsockname()[1]


@contextmanager
def leading(fake, folder):
    """The platform of a leader which has taken over."""
    platform = leader()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = port_of(free)
    made = ReportService(fake.api(), HOME, AGENTS, "me", port)
    made.prepare(platform)
    made.start(platform, folder)
    try:
        yield platform
    finally:
        made.close()


def labelled(fake):
    return (fake.get("pods", "me", HOME)["metadata"].get("labels") or {}).get(LEADER) == "true"


def published(fake, space):
    return (fake.get("configmaps", NAME, space).get("data") or {}).get("url")


def complete(fake, platform):
    told = trusted(platform) and platform.receiver.agents == AGENTS
    return told and labelled(fake) and published(fake, HOME) and published(fake, AGENTS)


def test_a_leader_publishes_where_to_report_and_labels_its_pod(there, tmp_path):
    with leading(there, tmp_path) as platform:
        assert complete(there, platform)
    assert not labelled(there)


@pytest.mark.parametrize(
    "call",
    [("GET", "secrets", ""), ("PATCH", "secrets", ""), ("PATCH", "configmaps", "")],
)
def test_what_failed_when_a_leader_took_over_is_tried_again(there, tmp_path, caplog, call):
    there.refuse[call] = LATER
    with leading(there, tmp_path) as platform:
        assert not trusted(platform)
        assert platform.endpoints[0].url, "pods know where to report from the first one on"
        assert not labelled(there), "no server, no clients"
        wait_for(lambda: len([c for c in there.calls if c[:2] == call[:2]]) > 3)
        there.refuse.clear()
        wait_for(lambda: complete(there, platform))
    assert caplog.text.count("pods cannot report") == 1


def test_the_label_of_the_leader_is_tried_again(there, tmp_path):
    there.refuse["PATCH", "pods", ""] = LATER
    with leading(there, tmp_path) as platform:
        assert trusted(platform)
        there.refuse.clear()
        wait_for(lambda: complete(there, platform))


def test_pods_report_although_the_agents_cannot_be_reached(there, tmp_path, caplog):
    there.drop("configmaps", NAME, AGENTS)
    with leading(there, tmp_path) as platform:
        assert trusted(platform)
        assert labelled(there)
        assert "node agents cannot report" in caplog.text
        there.put("configmaps", {"metadata": {"name": NAME, "namespace": AGENTS}}, AGENTS)
        wait_for(lambda: complete(there, platform))
    assert "pods cannot report" not in caplog.text


def test_a_port_that_is_in_use_is_tried_again(there, tmp_path):
    with socket.create_server(("", 0)) as taken:
        made, platform = ReportService(there.api(), HOME, AGENTS, "me", port_of(taken)), leader()
        made.prepare(platform)
        made.start(platform, tmp_path)
        assert not labelled(there), "no server, no clients"
    wait_for(lambda: complete(there, platform))
    made.close()


def test_a_leader_takes_the_label_from_the_pod_of_a_lost_one(there, tmp_path):
    """Its node is gone: it keeps its address in the Service, and half of the reports go there."""
    lost = {"name": "lost", "namespace": HOME, "labels": {LEADER: "true", "app": "headway"}}
    there.put("pods", {"metadata": lost, "spec": {}, "status": {}}, HOME)
    with leading(there, tmp_path) as platform:
        wait_for(lambda: complete(there, platform))
        wait_for(
            lambda: there.get("pods", "lost", HOME)["metadata"]["labels"] == {"app": "headway"}
        )


def test_without_the_right_to_list_pods_a_leader_labels_its_own(there, tmp_path):
    there.refuse["GET", "pods", ""] = (403, "pods is forbidden")
    with leading(there, tmp_path) as platform:
        wait_for(lambda: complete(there, platform))
