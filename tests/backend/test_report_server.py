"""The report server on loopback: who may report, how much, how slowly, and to whom it goes."""

import json
import socket
import ssl
from base64 import urlsafe_b64encode
from contextlib import suppress
from http.client import HTTPSConnection
from threading import Event, Thread

import pytest
from patience import PATIENCE, wait_for

from headway.backend.kubernetes.platform.pod_reports import Endpoint
from headway.backend.kubernetes.reports import certificate, server, token_review
from headway.backend.kubernetes.reports.token_review import Client, TokenReviewer
from headway.errors import BackendError, Denied, Unreachable
from headway.metrics.http_reports import from_kubeflow
from reporting import HOST, PAIR, connect, post, served, token, trusting

DOWN = "down"
ANN = Client("default:default", "uid-of-ann", "a")


def identify(token):
    if token == DOWN:
        raise Unreachable("the API server does not answer")
    return {"ann": ANN}.get(token)


def echo(client, body):
    return {"pod": client.pod, "body": body}


def fails(client, body):
    raise RuntimeError(client, body)


ROUTES = {"/echo": echo, "/fails": fails}


@pytest.fixture
def there(tmp_path):
    with served(tmp_path, identify, ROUTES) as made:
        yield made


def test_a_client_is_known_by_its_token(there):
    assert post(there, "/echo", {"x": 1}, "ann") == (200, {"pod": ANN.pod, "body": {"x": 1}})
    assert post(there, "/echo", {})[0] == 401
    assert post(there, "/echo", {}, "bob")[0] == 401
    assert post(there, "/echo", {}, Authorization="Basic ann")[0] == 401
    assert post(there, "/nothing", {}, "ann")[0] == 404


def test_a_connection_serves_several_requests(there):
    connection = HTTPSConnection(HOST, there.server_port, context=trusting())
    for i in range(3):
        assert post(there, "/echo", i, "ann", connection)[1]["body"] == i
    assert post(there, "/echo", 0, "bob", connection)[0] == 401
    connection.close()


def test_a_body_is_bounded_and_must_be_json(there):
    large = {"Content-Length": str(server.LARGEST_BODY + 1)}
    assert post(there, "/echo", b"x", "ann", **large)[0] == 413
    assert post(there, "/echo", b"{", "ann")[0] == 400
    assert post(there, "/echo", b"[" * 100_000, "ann")[0] == 400
    assert post(there, "/echo", b"", "ann", **{"Content-Length": "-1"})[0] == 411


def test_an_error_of_the_server_is_an_answer(there, caplog):
    assert post(there, "/fails", {}, "ann") == (500, {"error": "internal error"})
    assert "RuntimeError" in caplog.text
    assert post(there, "/echo", {}, DOWN)[0] == 503


def test_a_client_that_does_not_trust_the_certificate_sends_nothing(there):
    other = ssl.create_default_context(cadata=certificate.create("headway").certificate)
    connection = HTTPSConnection("127.0.0.1", there.server_port, context=other)
    with pytest.raises(ssl.SSLCertVerificationError):
        connection.request("POST", "/echo", "{}")


REQUEST = b"POST /echo HTTP/1.1\r\n"
BODY = b"Authorization: Bearer ann\r\nContent-Length: 100000\r\n\r\n"


def test_an_answer_is_sent_at_once(there):
    """In one record of TLS: otherwise its body waits until the client has acknowledged its head."""
    client = connect(there, PATIENCE)
    client.sendall(REQUEST + b"Authorization: Bearer ann\r\nContent-Length: 2\r\n\r\n{}")
    assert client.recv(10_000).endswith(b'"body": {}}')
    client.close()


@pytest.mark.parametrize("text", [b"", REQUEST, REQUEST + BODY], ids=["tls", "headers", "body"])
def test_a_slow_client_is_cut_off(tmp_path, text):
    with served(tmp_path, identify, ROUTES, patience=0.4) as there:
        address, stop = there.server_address, Event()
        client = connect(there, PATIENCE) if text else socket.create_connection(address, PATIENCE)

        def drip():
            with suppress(OSError):
                for byte in text + b"x" * 100_000:
                    client.send(bytes([byte]))
                    if stop.wait(0.02):
                        return

        thread = Thread(target=drip)
        thread.start()
        with suppress(ConnectionError, ssl.SSLError):  # but no TimeoutError
            while client.recv(1000):
                pass
        stop.set()
        thread.join()
        client.close()
        assert post(there, "/echo", 1, "ann")[0] == 200


def test_connections_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "MOST_FROM_ONE", 2)
    with served(tmp_path, identify, ROUTES) as there:
        held = [connect(there) for _ in range(2)]
        with pytest.raises(OSError, match=r"."), connect(there) as third:
            third.recv(1)
        for each in held:
            each.close()

        def works():
            try:
                return post(there, "/echo", 1, "ann")[0] == 200
            except OSError:
                return False

        wait_for(works)


def test_clients_of_one_path_do_not_take_the_place_of_others(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 3)
    monkeypatch.setattr(server, "MOST_KEPT", 6)
    with served(tmp_path, identify, {**ROUTES, "/other": echo}) as there:
        agents = [HTTPSConnection(HOST, there.server_port, context=trusting()) for _ in range(8)]
        for each in agents:
            assert post(there, "/echo", 1, "ann", each)[0] == 200
        kept = [each for each in agents if each.sock is not None]
        assert len(kept) == 6, "others are answered, and closed"
        assert post(there, "/other", 1, "ann")[0] == 200
        for each in kept:
            assert post(there, "/echo", 2, "ann", each)[0] == 200
            each.close()


def test_refused_connections_are_logged_once(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 1)
    with served(tmp_path, identify, ROUTES) as there, connect(there):
        for _ in range(3):
            with pytest.raises(OSError, match=r"."), connect(there) as other:
                other.recv(1)
        wait_for(lambda: "refuses connections" in caplog.text)
        assert caplog.text.count("refuses connections") == 1


# -- identity --------------------------------------------------------------------------------------


def test_a_token_counts_if_it_is_of_the_audience_and_says_which_pod_has_it(fake):
    good, other, free, none = (token(name) for name in ("good", "other", "free", "none"))
    fake.tokens = {
        good: ("headway", "default:default", "uid-1", "a"),
        other: ("vault", "default:default", "uid-1", "a"),
        free: ("headway", "default:default", "", ""),
    }
    found = TokenReviewer(fake.api())
    assert found.identify(good) == Client("default:default", "uid-1", "a")
    assert found.identify(other) is None
    assert found.identify(none) is None
    assert found.identify("") is None
    assert found.identify(token("x" * 10_000)) is None
    assert found.identify(free) == Client("default:default", "", "")


def test_a_token_is_reviewed_once_a_minute(fake):
    good, bad = token("good"), token("bad")
    fake.tokens = {good: ("headway", "default:default", "uid-1", "a")}
    now = [0.0]
    found = TokenReviewer(fake.api(), lambda: now[0])
    for _ in range(5):
        assert found.identify(good)
        assert not found.identify(bad)
    assert len(fake.calls) == 2
    fake.tokens = {}
    now[0] = token_review.KEPT + 1
    assert found.identify(good) is None
    assert len(fake.calls) == 3


def unsigned(claims):
    payload = urlsafe_b64encode(json.dumps(claims).encode()).decode()
    return f"e30.{payload}.x"


NO_TOKENS = {
    "a word": "random",
    "no payload": "a.b.c",
    "not ASCII": "a.\xe9.c",
    "deep": "a." + urlsafe_b64encode(b"[" * 5000).decode() + ".c",
    "a list": unsigned([]),
    "no claims": unsigned({}),
    "a number": unsigned({"aud": 1, "exp": 1e12}),
    "never": unsigned({"aud": "headway", "exp": "never"}),
    "no such time": unsigned({"aud": "headway", "exp": float("nan")}),
    "another audience": token("x", "vault"),
    "expired": token("x", lifetime=-2 * token_review.SKEW),
}


@pytest.mark.parametrize("wrong", NO_TOKENS.values(), ids=NO_TOKENS)
def test_what_cannot_be_a_token_of_the_audience_costs_no_call(fake, wrong):
    assert TokenReviewer(fake.api()).identify(wrong) is None
    assert fake.calls == []


def test_an_error_of_token_reviews_is_logged_once_with_what_to_do(fake, caplog):
    good = token("good")
    fake.tokens = {good: ("headway", "default:default", "uid-1", "a")}
    fake.refuse["POST", "tokenreviews", ""] = (403, "tokenreviews is forbidden")
    found = TokenReviewer(fake.api())
    for _ in range(3):
        with pytest.raises(Denied):
            found.identify(good)
    assert caplog.text.count("tokenreviews is forbidden") == 1
    assert "--only-cluster" in caplog.text
    fake.refuse["POST", "tokenreviews", ""] = (500, "restarting")
    with pytest.raises(Unreachable):
        found.identify(good)
    assert "restarting" in caplog.text
    fake.refuse.clear()
    assert found.identify(good)


def test_tokens_that_are_remembered_are_bounded(fake, monkeypatch):
    monkeypatch.setattr(token_review, "MOST", 3)
    found, bad = TokenReviewer(fake.api()), [token(f"bad-{i}") for i in range(5)]
    for each in bad:
        found.identify(each)
    calls = len(fake.calls)
    found.identify(bad[4])
    assert len(fake.calls) == calls
    found.identify(bad[0])
    assert len(fake.calls) == calls + 1


# -- the certificate -------------------------------------------------------------------------------


def test_the_certificate_is_created_once_and_published(fake):
    for kind in ("secrets", "configmaps"):
        made = {"metadata": {"name": certificate.NAME, "namespace": "headway"}}
        fake.put(kind, made, "headway")
    api = fake.api()
    assert certificate.find(api, "headway") == Endpoint(certificate.url("headway"))
    first = certificate.ensure(api, "headway")
    assert certificate.ensure(api, "headway") == first
    assert certificate.usable(first, "headway")
    assert not certificate.usable(first, "elsewhere")
    assert not certificate.usable(certificate.Pair(first.certificate, PAIR.key), "headway")
    endpoint = Endpoint(certificate.url("headway"), first.certificate)
    certificate.publish(api, "headway", endpoint)
    assert certificate.find(api, "headway") == endpoint
    with pytest.raises(BackendError):
        certificate.ensure(api, "elsewhere")
    assert certificate.find(api, "elsewhere") is None


# -- Kubeflow's protocol ---------------------------------------------------------------------------


def test_kubeflows_status_becomes_a_report():
    metrics = [{"name": "loss", "value": "0.5"}, {"name": "current_step", "value": "40"}]
    metrics.append({"name": "total_steps", "value": "100"})
    made = from_kubeflow({"trainerStatus": {"progressPercentage": 41, "metrics": metrics}}, "loss")
    assert made == {"step": 40.0, "total_steps": 100.0, "loss": 0.5}
    made = from_kubeflow({"trainerStatus": {"progressPercentage": 41}}, "loss")
    assert made == {"step": 41.0, "total_steps": 100.0}
    assert from_kubeflow({"trainerStatus": {"metrics": metrics[:1]}}, "accuracy") == {}
    for wrong in ([{"name": "loss"}], [{"name": "x", "value": "y"}], {}, metrics * 100):
        if wrong:
            with pytest.raises((ValueError, KeyError)):
                from_kubeflow({"trainerStatus": {"metrics": wrong}}, "loss")
