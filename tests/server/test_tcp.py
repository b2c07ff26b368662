"""The API over TCP: only with a token, only under its own names, and no client can hold it up."""

import json
import socket
import ssl
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from patience import PATIENCE, wait_for

from headway.client import Client
from headway.errors import ConfigError, Denied, NoServer
from headway.runtime.api_address import Remote, api_address
from headway.runtime.server import start_server
from headway.runtime.submissions import Submissions
from headway.server import audit
from headway.server import listener as listening
from headway.server import network as networking
from headway.server.audit import DeniedRequests
from headway.server.listener import Listener
from headway.server.network import Network
from headway.server.tokens import Tokens


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Files with a certificate for localhost, and its key."""
    folder, key, now = tmp_path_factory.mktemp("tls"), ec.generate_private_key(ec.SECP256R1()), None
    name, now = x509.Name([]), datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, *plain))
    return folder / "cert.pem", folder / "key.pem"


@contextmanager
def serving(data, network):
    """A server whose API answers, and whose loop does not run; yield its port."""
    server = start_server(data, "fair")
    try:
        with Listener(server, network=network) as made:
            yield int(made.url.rpartition(":")[2])
    finally:
        server.run.backend.close()
        server.run.journal.close()
        server.submissions.close()
        server.run.folder.unlock()


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWAY_ENFORCEMENT", "nice")
    return tmp_path / "data"


@pytest.fixture
def token(data):
    return Tokens(data).create("laptop")


@pytest.fixture
def port(data):
    with serving(data, Network.of("127.0.0.1:0", names=["lab.example"])) as found:
        yield found


def get(port, path="/api/v1/jobs", **headers):
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def test_a_request_needs_a_token_that_is_known_now(data, port, token):
    assert get(port)[0] == 401
    assert get(port, **bearer("headway-x"))[0] == 401
    assert get(port, Authorization=f"Basic {token}")[0] == 401
    assert get(port, **bearer(token))[0] == 200
    assert get(port, "/healthz")[0] == get(port, "/readyz")[0] == 200
    assert get(port, "/metrics")[0] == 401
    Tokens(data).revoke("laptop")
    status, body = get(port, **bearer(token))
    assert status == 401
    assert json.loads(body)["hint"].startswith("headway token create")


def test_only_names_of_this_machine_and_no_other_web_site(port, token):
    host = f"localhost:{port}"
    for good in (host, "127.0.0.1", f"[::1]:{port}", "LAB.example:99", socket.gethostname()):
        assert get(port, Host=good, **bearer(token))[0] == 200
    for bad in ("evil.example", "localhost.evil.example", "", "127.0.0.1.evil.example"):
        assert get(port, Host=bad, **bearer(token))[0] == 421
    own = {"Host": host, "Origin": f"http://{host}"}
    assert get(port, **own, **bearer(token))[0] == 200
    for other in ("https://evil.example", "null", f"https://{host}", "http://localhost:1"):
        assert get(port, Host=host, Origin=other, **bearer(token))[0] == 403


def test_the_document_says_that_a_token_is_needed(port, token):
    made = json.loads(get(port, "/api/v1/openapi.json", **bearer(token))[1])
    assert made["security"] == [{"token": []}]
    assert "401" in made["paths"]["/api/v1/jobs"]["post"]["responses"]
    assert made["paths"]["/healthz"]["get"]["security"] == []


def test_a_request_without_a_token_is_answered_before_its_body(port):
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as made:
        head = "POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n"
        made.sendall(f"{head}Content-Type: application/json\r\n\r\n{{".encode())
        assert made.recv(65536).startswith(b"HTTP/1.1 401 ")


def test_the_audit_names_the_token_of_a_client_that_changes_something(port, token, data):
    with Client(Remote("127.0.0.1", port, token, tls=False)) as client:
        spec = {"tasks": [{"command": ["true"]}]}
        client.submit([{"name": "far", "spec": spec}], directory="/")
        assert [job.job for job in client.jobs()] == ["far"]
    get(port)
    lines = [json.loads(line) for line in (data / "audit.jsonl").read_text().splitlines()]
    assert [(x["token"], x["request"], x["jobs"], x["status"]) for x in lines] == [
        ("laptop", "POST /api/v1/jobs", ["far"], 201)
    ]
    assert token not in (data / "audit.jsonl").read_text()


def test_requests_without_a_known_token_have_lines_in_a_file_of_their_own(port, token, data):
    get(port, "/api/v1/jobs/" + 1000 * "x")
    get(port, **bearer("headway-x"))
    get(port, Host="evil.example", **bearer(token))
    get(port, **bearer(token))
    text = (data / "denied.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert [(x["request"][:30], x["status"]) for x in lines] == [
        ("GET /api/v1/jobs/" + 13 * "x", 401),
        ("GET /api/v1/jobs", 401),
        ("GET /api/v1/jobs", 421),
    ]
    assert all(x["client"].startswith("127.0.0.1:") and x["time"] for x in lines)
    assert max(len(x["request"]) for x in lines) == audit.LONGEST
    assert (data / "denied.jsonl").stat().st_mode & 0o777 == 0o600
    assert token not in text
    assert "headway-x" not in text
    assert not (data / "audit.jsonl").exists()


def test_a_stranger_can_neither_fill_the_audit_nor_the_disk(tmp_path, monkeypatch):
    now = [100.0]
    noting = DeniedRequests(tmp_path, lambda: now[0])
    scope = {"method": "GET", "path": "/", "client": ("10.0.0.1", 9)}
    file = tmp_path / "denied.jsonl"
    for _ in range(1000):
        noting.note(scope, 401)
    assert len(file.read_text().splitlines()) == audit.DENIED_PER_MINUTE
    now[0] += 60 / audit.DENIED_PER_MINUTE
    noting.note(scope, 401)
    noting.note(scope, 401)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert (len(lines), lines[-1]["omitted"]) == (61, 1000 - audit.DENIED_PER_MINUTE)
    monkeypatch.setattr(audit, "MOST_DENIED", 1000)
    for _ in range(100):
        now[0] += 60.0
        noting.note(scope, 401)
    assert {path.name for path in tmp_path.iterdir()} == {"denied.jsonl", "denied.1.jsonl"}
    assert file.stat().st_size < 2000


def test_the_client_submits_by_url_and_follows(port, token, monkeypatch, headway, tmp_path):
    monkeypatch.setenv("HEADWAY_SERVER", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("HEADWAY_TOKEN", token)
    monkeypatch.setenv("HOME", "/home/of-the-client")
    ran = headway("submit", "--name", "far", "--env", "X=1", "--directory", "/", "--", "true")
    assert (ran.code, ran.out.strip()) == (0, "far")
    assert "far" in headway("ps").out
    assert "headway ps --all lists them" in headway("cancel", "nosuch").err
    [run] = (tmp_path / "data" / "runs").glob("2*")
    stored = Submissions(run).find("far")
    assert stored.env == {"X": "1"}
    assert stored.directory == "/"
    with Client.of() as client:
        assert client.job("far").phase == "pending"
    monkeypatch.setenv("HEADWAY_TOKEN", "headway-x")
    refused = headway("ps")
    assert refused.code == 3
    assert "token" in refused.err


def test_tls_protects_the_connection(data, token, certificate, monkeypatch):
    monkeypatch.setattr(listening, "SILENT", 1.0)
    network = Network.of("localhost:0", *certificate)
    with serving(data, network) as port:
        there = Remote("localhost", port, token, True, str(certificate[0]))
        with Client(there) as client:
            assert client.server()["policy"] == "fair"
        with pytest.raises(Denied, match="not trusted"), Client(Remote(*there_without(there))) as c:
            c.server()
        with pytest.raises(NoServer), Client(Remote("localhost", port, token, False)) as c:
            c.server()
        with socket.create_connection(("localhost", port), PATIENCE) as silent:
            assert silent.recv(1) == b""  # it has not begun its handshake in time


def there_without(there):
    return there.host, there.port, there.token, True


def test_connections_are_bounded_also_those_without_a_handshake(data, certificate, monkeypatch):
    monkeypatch.setattr(networking, "CONNECTIONS", 3)
    with serving(data, Network.of("localhost:0", *certificate)) as port:
        context = ssl.create_default_context(cafile=str(certificate[0]))

        def shake(made):
            with context.wrap_socket(made, server_hostname="localhost"):
                return True

        held = [socket.create_connection(("localhost", port), PATIENCE) for _ in range(3)]
        with pytest.raises(OSError), socket.create_connection(("localhost", port), PATIENCE) as one:  # noqa: PT011
            shake(one)
        for each in held:
            each.close()

        def answered():
            with suppress(OSError), socket.create_connection(("localhost", port), 1.0) as made:
                return shake(made)

        wait_for(answered)


def test_a_network_needs_tls_or_a_flag(certificate):
    for address in ("0.0.0.0:1", ":1", "[::]:1"):
        with pytest.raises(ConfigError, match="clear text"):
            Network.of(address)
        assert Network.of(address, insecure=True).context is None
        assert Network.of(address, *certificate).context is not None
    assert Network.of("[::1]:8443").url(8443) == "http://[::1]:8443"


@pytest.mark.parametrize("address", ["", "host", "127.0.0.1:x", "127.0.0.1:99999"])
def test_an_address_is_a_host_and_a_port(address):
    with pytest.raises(ConfigError, match="not an address"):
        Network.of(address)


def test_certificate_and_key_belong_together(certificate, tmp_path):
    with pytest.raises(ConfigError, match="both"):
        Network.of(":1", certificate[0])
    with pytest.raises(ConfigError, match="cannot be used"):
        Network.of(":1", certificate[0], certificate[0])
    with pytest.raises(FileNotFoundError, match="missing"):
        Network.of(":1", certificate[0], tmp_path / "missing")


def test_a_port_that_is_taken_is_named(data):
    with socket.create_server(("127.0.0.1", 0)) as other:
        network = Network.of(f"127.0.0.1:{other.getsockname()[1]}")
        with pytest.raises(ConfigError, match="cannot listen"), serving(data, network):
            pass


def test_serve_refuses_options_that_do_not_go_together(headway):
    for words in (["--insecure"], ["--allow-host", "x"], ["--system", "--listen", ":1"]):
        ran = headway("serve", *words)
        assert ran.code == 2
        assert "listen" in ran.err.lower()


# -- the client ------------------------------------------------------------------------------------


def test_a_token_comes_from_a_private_file(monkeypatch, tmp_path):
    monkeypatch.setenv("HEADWAY_SERVER", "https://lab.example")
    with pytest.raises(ConfigError, match="needs a token"):
        api_address(None)
    file = tmp_path / "token"
    file.write_text("headway-abc\n")
    file.chmod(0o644)
    monkeypatch.setenv("HEADWAY_TOKEN_FILE", str(file))
    with pytest.raises(ConfigError, match="other users"):
        api_address(None)
    file.chmod(0o600)
    found = api_address(None)
    assert found == Remote("lab.example", 443, "headway-abc", True)
    assert "abc" not in repr(found)


@pytest.mark.parametrize("url", ["lab", "ftp://lab", "https://", "https://lab:port"])
def test_a_url_that_is_none_is_refused(monkeypatch, url):
    monkeypatch.setenv("HEADWAY_SERVER", url)
    with pytest.raises(ConfigError, match="not a URL"):
        api_address(None)


def test_a_token_is_not_sent_in_clear_text_over_a_network(monkeypatch):
    monkeypatch.setenv("HEADWAY_SERVER", "http://lab.example:8443")
    monkeypatch.setenv("HEADWAY_TOKEN", "headway-abc")
    with pytest.raises(ConfigError, match="clear text"):
        api_address(None)
    monkeypatch.setenv("HEADWAY_INSECURE", "1")
    assert str(api_address(None)) == "http://lab.example:8443"
