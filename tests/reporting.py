"""A report server on loopback, and clients of it."""

import json
import socket
import ssl
from base64 import urlsafe_b64encode
from contextlib import contextmanager
from http.client import HTTPSConnection
from time import time

from headway.backend.kubernetes.reports import certificate
from headway.backend.kubernetes.reports.server import ReportServer

PAIR = certificate.create("headway")
HOST = "headway-reports.headway.svc"


def token(name, audience="headway", lifetime=3600.0):
    """As the API server issues them, but for the signature."""
    claims = {"aud": [audience], "exp": time() + lifetime, "sub": name}
    payload = urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{payload}.{name}"


def trusting():
    return ssl.create_default_context(cadata=PAIR.certificate)


@contextmanager
def served(tmp_path, identify, routes, **more):
    made = ReportServer(
        ("127.0.0.1", 0), certificate.context(PAIR, tmp_path), identify, routes, **more
    )
    try:
        yield made
    finally:
        made.close()


def connect(server, timeout=20):
    plain = socket.create_connection(server.server_address, timeout=timeout)
    return trusting().wrap_socket(plain, server_hostname=HOST)


def post(server, path, body, token="", connection=None, **headers):
    """Status and answer."""
    there = connection or HTTPSConnection(HOST, server.server_port, context=trusting())
    if there.sock is None:
        there.sock = connect(server)
    if token:
        headers["Authorization"] = f"Bearer {token}"
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    there.request("POST", path, data, headers)
    answer = there.getresponse()
    found = answer.status, json.loads(answer.read())
    if connection is None:
        there.close()
    return found


@contextmanager
def resolved(monkeypatch, folder, token):
    """The name of the operator's Service leads to loopback; files as in a pod."""
    resolve = socket.getaddrinfo

    def to_loopback(host, *more, **named):
        return resolve("127.0.0.1" if host == HOST else host, *more, **named)

    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", to_loopback)
        (folder / "token").write_text(f"{token}\n")
        (folder / "ca.crt").write_text(PAIR.certificate)
        yield
