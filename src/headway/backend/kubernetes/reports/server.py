"""An HTTPS server with bounds: connections, time of each request, size of each body.

A request is handled in three steps: authentication (401), parsing (400, 413), and handling in the
loop (503: retry). A report is acknowledged after the loop has handled it.
"""

import json
import logging
import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any

from headway.backend.kubernetes.reports.token_review import Client
from headway.core.model.units import Seconds
from headway.errors import BackendError
from headway.metrics.http_reports import LARGEST_BODY

log = logging.getLogger("headway")
MOST_CONNECTIONS = 256
"""Maximum number of connections without an accepted request."""
MOST_KEPT = 512
"""Maximum number of connections kept open for each path, by their last accepted request. Others are
closed after the answer. The limit is for each path so that connections of node agents and of pods
do not displace each other.
"""
MOST_FROM_ONE = 16
"""Connections from one address; pods on the network of their node share its address."""
REQUEST: Seconds = 30.0
"""Maximum time from the end of a request to the end of the next one on the same connection."""
HANDSHAKE: Seconds = 10.0
LOOK: Seconds = 1.0


class Refusal(Exception):
    """An answer that is not 200."""

    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


Identify = Callable[[str], Client | None]
Route = Callable[[Client, Any], dict[str, Any]]
"""Handles a body and returns the answer, or raises a `Refusal`."""


@dataclass(slots=True)
class _Connection:
    address: str
    until: float
    """Deadline."""
    path: str = ""
    """Path of its last request, if that was accepted."""


class ReportServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self,
        address: tuple[str, int],
        context: ssl.SSLContext,
        identify: Identify,
        routes: Mapping[str, Route],
        *,
        patience: Seconds = REQUEST,
    ) -> None:
        self._context, self.identify, self.routes = context, identify, routes
        self._patience, self._stopped = patience, Event()
        self._lock = Lock()
        self._open: dict[socket.socket, _Connection] = {}
        self._logged = False
        super().__init__(address, _Handler)
        Thread(target=self.serve_forever, name="reports", daemon=True).start()
        Thread(target=self._guard, name="reports-guard", daemon=True).start()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            host = client_address[0]
            new = sum(not each.path for each in self._open.values())
            there = sum(each.address == host for each in self._open.values())
            fits = new < MOST_CONNECTIONS and there < MOST_FROM_ONE
            if fits:
                until = monotonic() + min(HANDSHAKE, self._patience)
                self._open[request] = _Connection(host, until)
        if fits:
            super().process_request(request, client_address)
            return
        self.shutdown_request(request)
        if not self._logged:
            self._logged = True
            log.warning(
                "the report server refuses connections: %d from %s (at most %d), %d new in total "
                "(at most %d); logged once", there, host, MOST_FROM_ONE, new, MOST_CONNECTIONS
            )  # fmt: skip

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Make the TLS handshake in this thread, because a client may be slow, then handle
        requests.
        """
        try:
            with suppress(
                OSError, ValueError
            ):  # the client has closed the connection, or was too slow
                request.settimeout(self._patience)
                tls = self._context.wrap_socket(
                    request, server_side=True, do_handshake_on_connect=False
                )
                with self._lock:
                    self._open[tls] = self._open.pop(request)
                request = tls
                tls.do_handshake()
                self.finish_request(tls, client_address)
        finally:
            with self._lock:
                self._open.pop(request, None)
            self.shutdown_request(request)

    def extend(self, connection: socket.socket) -> None:
        """Set the deadline of the next request of a connection."""
        with self._lock:
            if connection in self._open:
                self._open[connection].until = monotonic() + self._patience

    def keep(self, connection: socket.socket, path: str) -> bool:
        """Note an accepted request; return whether the connection is kept open."""
        with self._lock:
            there = self._open.get(connection)
            if there is None:
                return False
            if there.path != path:
                kept = sum(each.path == path for each in self._open.values())
                there.path = path if kept < MOST_KEPT else ""
            return there.path == path

    def _guard(self) -> None:
        """Close connections after their deadline. The timeout of a socket does not end a client
        that sends a byte from time to time.
        """
        while not self._stopped.wait(min(LOOK, self._patience / 4)):
            with self._lock:
                now = monotonic()
                late = [each for each, about in self._open.items() if about.until < now]
            self._end(late)

    def _end(self, connections: list[socket.socket]) -> None:
        for each in connections:
            with suppress(OSError):
                # Not `shutdown` of the TLS layer, from which another thread reads.
                socket.socket.shutdown(each, socket.SHUT_RDWR)

    def close(self) -> None:
        self._stopped.set()
        self.shutdown()
        self.server_close()
        with self._lock:
            left = list(self._open)
        self._end(left)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    """Head and body in one packet: the body would wait for the acknowledgement of the head."""
    server_version, sys_version = "headway", ""
    server: ReportServer
    connection: socket.socket
    error_content_type = "application/json"
    error_message_format = '{"error": "%(message)s"}'

    def handle_one_request(self) -> None:
        self.server.extend(self.connection)
        super().handle_one_request()

    def do_POST(self) -> None:
        try:
            answer, status = self._answer(), HTTPStatus.OK
        except Refusal as refusal:
            answer, status = {"error": refusal.why}, refusal.status
        except BackendError as error:  # the API server does not answer
            answer, status = {"error": error.message}, HTTPStatus.SERVICE_UNAVAILABLE
        except Exception:  # the outermost guard of a request
            log.exception("a report was not handled")
            answer, status = {"error": "internal error"}, HTTPStatus.INTERNAL_SERVER_ERROR
        data = json.dumps(answer).encode()
        self.send_response(status)
        accepted = status is HTTPStatus.OK
        # The body of a refused request may not have been read.
        if not accepted or not self.server.keep(self.connection, self.path):
            self.close_connection = True
            self.send_header("Connection", "close")
        if status is HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", "Bearer")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _answer(self) -> dict[str, Any]:
        route = self.server.routes.get(self.path)
        if route is None:
            raise Refusal(HTTPStatus.NOT_FOUND, "no such path")
        kind, _, token = self.headers.get("Authorization", "").partition(" ")
        client = self.server.identify(token.strip()) if kind.lower() == "bearer" else None
        if client is None:
            raise Refusal(HTTPStatus.UNAUTHORIZED, "a token of the audience headway is required")
        return route(client, self._body())

    def _body(self) -> Any:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            raise Refusal(HTTPStatus.LENGTH_REQUIRED, "Content-Length is required")
        if len(length) > 9 or int(length) > LARGEST_BODY:
            raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {LARGEST_BODY} bytes")
        try:
            return json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            raise Refusal(HTTPStatus.BAD_REQUEST, "invalid JSON") from None

    def log_message(self, *args: object) -> None:
        """Do not log reports."""
