"""`headway doctor`: a missing part is named with what to do, and nothing is changed."""

import json

import pytest

from headway.runtime import doctor


def findings(headway, *words):
    ran = headway("doctor", "--json", *words)
    assert ran.code == 0, ran.err
    return {found["what"]: found for found in json.loads(ran.out)}


@pytest.fixture(autouse=True)
def nowhere(tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "no.yaml"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)


def test_parts_that_are_missing_are_named_with_what_to_do(headway, tmp_path):
    found = findings(headway, "--data", tmp_path / "data")
    assert {name: found[name]["state"] for name in ("data directory", "runs", "logout")} == {
        "data directory": "ok", "runs": "ok", "logout": "ok"
    }  # fmt: skip
    assert (found["Docker"]["state"], found["Kubernetes"]["state"]) == ("missing", "missing")
    assert found["Docker"]["hint"]
    assert found["Kubernetes"]["hint"]
    assert not (tmp_path / "data").exists()
    table = headway("doctor", "--data", tmp_path / "data").out
    assert "what to do" in table


def test_without_a_cgroup_shares_are_limited(headway, tmp_path, monkeypatch):
    def unavailable(run):
        raise doctor.Unavailable(f"permission denied for {run}")

    monkeypatch.setattr(doctor, "Cgroup1", unavailable)
    monkeypatch.setattr(doctor, "Cgroup2", unavailable)
    found = findings(headway, "--data", tmp_path)["CPU shares"]
    assert found["state"] == "limited"
    assert "Delegate" in found["hint"]


def test_a_full_disk_and_a_busy_machine_are_named(headway, tmp_path, monkeypatch):
    monkeypatch.setattr(doctor, "FREE", 2**80)
    monkeypatch.setattr(doctor, "LOAD", -1.0)
    found = findings(headway, "--data", tmp_path)
    assert found["data directory"]["hint"].startswith("headway clean")
    assert found["machine"]["state"] == "limited"


def test_a_directory_that_cannot_be_written_is_missing(headway):
    assert findings(headway, "--data", "/proc/nowhere")["data directory"]["state"] == "missing"


def test_an_active_server_is_named(serving, headway, tmp_path):
    serving()
    assert findings(headway, "--data", tmp_path / "data")["runs"]["found"] == "a server is active"
