"""The operator: one leads, jobs are looked after, and it goes without harming them."""

import json
import os
import signal
import socket
from threading import Event, Thread
from time import monotonic, sleep

import pytest
from kubernetes.config import ConfigException
from patience import Deadline

from headway.backend.kubernetes.client import leader_election as leases
from headway.backend.kubernetes.client.api import connect
from headway.backend.kubernetes.client.leader_election import LeaderElection
from headway.errors import BackendError, ConfigError, Denied, Unreachable
from headway.runtime.operator import Operator
from headway.runtime.run_directory import RunDirectory


def holder(fake):
    found = fake.get("leases", "headway")
    return found["spec"]["holderIdentity"] if found else None


def test_one_process_holds_the_lease_and_the_next_waits_until_it_is_released(fake):
    one, two = (LeaderElection(fake.api(), "default", "headway", name) for name in ("one", "two"))
    assert one.take()
    assert not two.take()
    assert one.take()
    assert holder(fake) == "one"
    assert fake.get("leases", "headway")["kind"] == "Lease"
    one.release()
    two.release()  # it is not his
    assert two.take()
    assert holder(fake) == "two"
    assert fake.get("leases", "headway")["spec"]["leaseTransitions"] == 1


def test_a_lease_that_is_not_renewed_is_taken(fake):
    one, two = (LeaderElection(fake.api(), "default", "headway", name) for name in ("one", "two"))
    assert one.take()
    assert not two.take()
    fake.change("leases", "headway", {"spec": {"leaseDurationSeconds": 0}})
    assert two.take()


def test_the_first_process_to_write_holds_the_lease(fake):
    one = LeaderElection(fake.api(), "default", "headway", "one")
    fake.refuse["POST", "leases", ""] = (409, "exists")
    assert not one.take()
    fake.refuse["POST", "leases", ""] = (422, "no")
    with pytest.raises(BackendError):
        one.take()
    fake.refuse["GET", "leases", ""] = (400, "no")
    with pytest.raises(BackendError):
        one.take()


def test_waiting_for_the_lease_can_be_stopped(fake, monkeypatch):
    monkeypatch.setattr(leases, "RETRY", 0.02)
    assert LeaderElection(fake.api(), "default", "headway", "one").take()
    stop = Event()
    Thread(target=lambda: (sleep(0.1), stop.set()), daemon=True).start()
    assert not LeaderElection(fake.api(), "default", "headway", "two").acquire(stop)


@pytest.mark.parametrize("how", ["taken", "unreachable", "expired", "released"])
def test_a_lost_lease_is_noticed_in_time(fake, monkeypatch, how):
    monkeypatch.setattr(leases, "RETRY", 0.02)
    monkeypatch.setattr(leases, "DEADLINE", 1.0)
    monkeypatch.setattr(leases, "LOOK", 0.02)
    one, lost = LeaderElection(fake.api(), "default", "headway", "one"), Event()
    assert one.take()
    one.hold(lost.set)
    sleep(0.1)
    assert not lost.is_set()
    by_others = {"taken": ("two", 15), "expired": ("two", 0), "released": ("", 15)}
    if how in by_others:  # also if it could be had again: others have led meanwhile
        holder, lasts = by_others[how]
        told = {"holderIdentity": holder, "leaseDurationSeconds": lasts}
        fake.change("leases", "headway", {"spec": told})
    else:
        fake.refuse["GET", "leases", ""] = (503, "busy")
    assert lost.wait(5)


def test_a_lease_that_someone_edits_between_read_and_write_is_renewed_again(fake, monkeypatch):
    monkeypatch.setattr(leases, "RETRY", 0.02)
    monkeypatch.setattr(leases, "LOOK", 0.02)
    one, lost = LeaderElection(fake.api(), "default", "headway", "one"), Event()
    assert one.take()

    def written():
        return len([c for c in fake.calls if c[:2] == ("PUT", "leases")])

    def until(count):
        end = monotonic() + 8  # the lease is valid for 10 s
        while written() < count and monotonic() < end:
            sleep(0.01)
        assert written() >= count

    fake.refuse["PUT", "leases", ""] = (409, "the object has been modified")
    one.hold(lost.set)
    until(2)
    fake.refuse.clear()
    until(written() + 2)
    assert one.is_valid()
    assert not lost.is_set()
    one.release()


@pytest.mark.parametrize("answer", [0.1, 60.0])
def test_a_server_that_hangs_does_not_delay_the_end_of_a_lease(fake, monkeypatch, answer):
    """Whether the calls end before the deadline or long after it."""
    monkeypatch.setattr(leases, "RETRY", 0.02)
    monkeypatch.setattr(leases, "DEADLINE", 0.5)
    monkeypatch.setattr(leases, "LOOK", 0.02)
    monkeypatch.setattr(leases, "ANSWER", answer)
    one, lost = LeaderElection(fake.api(), "default", "headway", "one"), Event()
    assert one.take()
    one.hold(lost.set)
    with fake.changed:  # nothing is answered as long as we hold this
        hung = monotonic()
        assert lost.wait(5)
        assert monotonic() - hung < 2.0


def test_an_operator_places_jobs_and_goes_in_peace(fake, tmp_path):
    """In the main thread, for it listens to signals; a helper submits, looks, and ends it."""
    seen = {}

    def helper():
        deadline = Deadline()
        fake.submit("x")
        while (
            not any(p["spec"].get("nodeName") for p in fake.all("pods")) and not deadline.passed()
        ):
            sleep(0.05)
        seen["holder"] = holder(fake)
        os.kill(os.getpid(), signal.SIGTERM)

    Thread(target=helper, daemon=True).start()
    Operator("spread", tmp_path).go(fake.api())
    assert seen["holder"]
    assert holder(fake) == ""
    assert [p["spec"]["nodeName"] for p in fake.all("pods")] == ["a"]
    run = json.loads((tmp_path / "runs" / "latest" / "run.json").read_text())
    assert (run["policy"], run["enforcement"]) == ("spread", "kubernetes")
    lines = (tmp_path / "runs" / "latest" / "journal.jsonl").read_text()
    assert "Place" in lines


def test_a_leader_serves_reports_and_labels_its_pod(fake, tmp_path, monkeypatch):
    monkeypatch.setenv("POD_NAME", "me")
    for space in ("default", "agents"):
        about = {"name": "headway-reports", "namespace": space}
        fake.put("configmaps", {"metadata": dict(about)})
        fake.put("secrets", {"metadata": dict(about)})
    fake.put("pods", {"metadata": {"name": "me", "namespace": "default"}, "spec": {}, "status": {}})

    def label():
        return (fake.get("pods", "me")["metadata"].get("labels") or {}).get("headway.dev/leader")

    def later():
        while label() != "true":
            sleep(0.02)
        seen.append(fake.get("configmaps", "headway-reports", "agents")["data"])
        os.kill(os.getpid(), signal.SIGTERM)

    seen = []
    Thread(target=later, daemon=True).start()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    Operator("spread", tmp_path, report_port=port, agents="agents").go(fake.api())
    assert label() is None
    assert seen[0]["url"] == "https://headway-reports.default.svc:8443"
    assert "BEGIN CERTIFICATE" in seen[0]["ca.crt"]


def test_an_operator_without_the_objects_of_reports_works_and_says_so(fake, tmp_path, caplog):
    def later():
        while "cannot report" not in caplog.text or not fake.get("leases", "headway"):
            sleep(0.02)
        os.kill(os.getpid(), signal.SIGTERM)

    Thread(target=later, daemon=True).start()
    Operator("spread", tmp_path, report_port=1).go(fake.api())
    assert "pods cannot report: secrets headway-reports not found" in caplog.text


def test_of_earlier_terms_only_the_last_is_kept(fake, tmp_path):
    """And whatever is no operator's, or is still looked after."""
    for name, about in (("1", {}), *((str(n), {"operator": {}}) for n in range(2, 6))):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "run.json").write_text(json.dumps(about))
    (tmp_path / "runs" / "broken").mkdir()
    busy = RunDirectory(tmp_path / "runs" / "3")
    busy.lock()
    fake.refuse["GET", "nodes", ""] = (403, "that is enough")
    with pytest.raises(Denied):
        Operator("spread", tmp_path).go(fake.api())
    busy.unlock()
    latest = (tmp_path / "runs" / "latest").readlink().name
    there = {p.name for p in (tmp_path / "runs").iterdir()}
    assert there == {"1", "3", "5", "broken", "latest", latest}


def test_a_cluster_that_denies_access_is_reported(fake, tmp_path):
    fake.refuse["GET", "nodes", ""] = (403, "nodes is forbidden")
    with pytest.raises(Denied, match="forbidden") as denied:
        Operator("spread", tmp_path).go(fake.api())
    assert "headway kubernetes manifests" in denied.value.hint
    del fake.refuse["GET", "nodes", ""]
    fake.refuse["GET", "leases", ""] = (403, "leases is forbidden")
    with pytest.raises(Denied, match="leases is forbidden"):
        Operator("spread", tmp_path).go(fake.api())
    del fake.refuse["GET", "leases", ""]
    fake.refuse["GET", "trainingjobs", ""] = (404, "page not found")
    with pytest.raises(BackendError, match="no custom resource TrainingJob"):
        Operator("spread", tmp_path).go(fake.api())


def test_the_way_to_a_cluster(tmp_path, monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ConfigError, match="no cluster is known"):
        connect(str(tmp_path / "none"))
    there = tmp_path / "config"
    there.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
    }))  # fmt: skip
    api = connect(str(there))
    assert (api.url, api.namespace) == ("http://127.0.0.1:9", "team")
    with pytest.raises(Unreachable, match="does not answer"):
        api.get("/readyz")


@pytest.mark.parametrize("error", [ConfigException("expired"), PermissionError("its file")])
def test_a_token_that_cannot_be_read_may_come_back(fake, error):
    def no_token(_):
        raise error

    api = fake.api()
    api._client.configuration.refresh_api_key_hook = no_token
    api._client.configuration.api_key["authorization"] = "old"
    with pytest.raises(Unreachable, match=str(error)):
        api.get("/readyz")
