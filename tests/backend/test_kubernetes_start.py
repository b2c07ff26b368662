"""An operator that starts while the API server is slow, or refuses some of what it asks for."""

import pytest

from fake_cluster import node
from headway.backend.kubernetes.client import api, cache
from headway.errors import BackendError


def test_a_list_that_takes_long_is_waited_for_while_its_pages_arrive(fake, backends, monkeypatch):
    """Each page takes 20 s, the whole list longer than the patience of 30 s."""
    for i in range(5):
        fake.put("nodes", node(f"n{i}"))
    lists = ("GET", "nodes", "", "")
    monkeypatch.setattr(api, "PAGE", 1)
    monkeypatch.setattr(cache, "monotonic", lambda: 20.0 * fake.calls.count(lists))
    assert len(backends().platform.cluster.nodes) == 7


def test_a_server_that_does_not_answer_is_given_up(fake, backends, monkeypatch):
    fake.hanging.add(("GET", "nodes", ""))
    monkeypatch.setattr(cache, "PATIENCE", 0.5)
    with pytest.raises(BackendError, match="timeout: no answer from"):
        backends()


def test_a_list_that_expires_is_not_taken_for_a_missing_custom_resource(
    fake, backends, monkeypatch
):
    def given_up(patience):
        monkeypatch.setattr(cache, "PATIENCE", patience)
        with pytest.raises(BackendError) as raised:
            backends()
        return str(raised.value)

    fake.refuse["GET", "pods", ""] = 410, "the provided continue parameter is too old"
    told = map(given_up, (0.5, 5.0, 30.0))  # on a busy machine the first may see no answer
    assert "continue parameter is too old" in next(why for why in told if "timeout" not in why)
