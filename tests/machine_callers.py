"""A server of all users whose loop does not run, and requests of its users."""

import json
import os
import socket
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from headway.client import BASE
from headway.runtime.server import start_server
from headway.server.listener import Listener
from headway.spec.quotas import Quotas

ANN, BEN = 54321, 54322
"""Users without an account."""


def job(name="x", **more):
    return {"name": name, "spec": {"tasks": [{"command": ["true"]}], "backoffLimit": 0, **more}}


@contextmanager
def public_server(quotas=None):
    """Its socket. Not in pytest's directory: each pytest that begins closes it to other users."""
    if os.geteuid():
        pytest.skip("only root can be two users")
    os.environ["HEADWAY_ENFORCEMENT"] = "nice"
    place = TemporaryDirectory()
    folder = Path(place.name)
    folder.chmod(0o711)
    server = start_server(folder / "data", "fair")
    path = folder / "open" / "headway.sock"
    try:
        with Listener(server, path, Quotas.model_validate(quotas or {})):
            yield path
    finally:
        server.run.backend.close()
        server.run.journal.close()
        server.submissions.close()
        server.run.folder.unlock()
        place.cleanup()
        del os.environ["HEADWAY_ENFORCEMENT"]


def call(path, uid, method, where, body=None, headers=""):
    """Send a request as this user from another process: status, and body as JSON if it is."""
    data = b"" if body is None else json.dumps(body).encode()
    kind = "Content-Type: application/json\r\n" if body is not None else ""
    head = f"{method} {BASE}{where} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{kind}{headers}"
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            with socket.socket(socket.AF_UNIX) as made:
                made.connect(str(path))
                made.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
                while block := made.recv(65536):
                    os.write(theirs, block)
        except BaseException as error:  # noqa: BLE001 - the test shows it
            os.write(theirs, f"- failed: {error!r}".encode())
        finally:
            os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as file:
        answer = file.read()
    os.waitpid(child, 0)
    first, _, text = answer.partition(b"\r\n\r\n")
    status = int(first.split()[1])
    with suppress(ValueError):
        return status, json.loads(text)
    return status, text.decode()


def submit(path, uid, *jobs, key=""):
    headers = f"Idempotency-Key: {key}\r\n" if key else ""
    body = {"jobs": list(jobs), "directory": "/", "env": {"SECRET": "s"}}
    return call(path, uid, "POST", "/jobs", body, headers)
