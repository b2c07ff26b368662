"""The thread of the API, served by uvicorn: a Unix socket in the folder of the run, a port of this
machine for the reports of jobs, and if it is asked for, an address for clients elsewhere.
"""

import asyncio
import logging
import os
import socket
from collections import Counter
from collections.abc import MutableMapping
from contextlib import suppress
from pathlib import Path
from ssl import SSLContext
from threading import Thread
from types import TracebackType
from typing import Any, ClassVar, Self

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from headway.backend.local.platform import LocalPlatform
from headway.backend.replica_env import LOCALHOST
from headway.backend.report_channel import ReportChannel
from headway.client_connection import SOCKET, short_path
from headway.core.model.units import JobId, Seconds
from headway.errors import BackendError, ConfigError
from headway.runtime.job_status import JobStatus
from headway.runtime.run_status import submitted_status
from headway.runtime.server import Server
from headway.server.access import PEER, peer
from headway.server.app import Api
from headway.server.audit import Audited, DeniedRequests
from headway.server.limits import SubmitLimits
from headway.server.network import Guarded, Network, Note, listen
from headway.server.report_app import ReportApp
from headway.server.store import Store
from headway.server.tokens import Tokens
from headway.spec.quotas import Quotas

CONNECTIONS = 256
"""Maximum number of clients at the same time; others get status 503."""
HEAD = 16 * 2**10
"""Maximum size in bytes of the head of a request."""
OF_USER = 32
"""Maximum number of connections of a user of the machine; others are closed at once."""
SILENT: Seconds = 10.0
"""Time within which a client must send the head of a request."""
UNREAD: Seconds = 30.0
"""Time within which a client must read what was sent to it."""
log = logging.getLogger("headway")


class BoundedProtocol(H11Protocol):
    """Ends the connection of a client that sends or reads too slowly."""

    of_user: ClassVar[Counter[int]] = Counter()
    """Connections of each user of the machine that is neither root nor the server's."""
    _counted: int | None = None
    _slow: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        caller = peer(transport.get_extra_info("socket"))
        self.app_state = {**self.app_state, PEER: caller}
        self._expect()
        if caller is not None and caller.uid not in (0, os.geteuid()):
            self._counted = caller.uid
            self.of_user[caller.uid] += 1
            if self.of_user[caller.uid] > OF_USER:
                transport.abort()

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._cancel()

    def on_response_complete(self) -> None:
        before = self.cycle
        super().on_response_complete()
        if self.cycle is before:  # no request was waiting already
            self._expect()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(UNREAD, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel()
        if self._counted is not None:
            self.of_user[self._counted] -= 1
        super().connection_lost(exc)

    def _expect(self) -> None:
        self._cancel()
        self._slow = self.loop.call_later(SILENT, self.transport.abort)

    def _cancel(self) -> None:
        if self._slow is not None:
            self._slow.cancel()


class BoundedLoop(asyncio.SelectorEventLoop):
    """Ends the connection of a client that takes its time for the handshake of TLS."""

    async def create_server(self, *args: Any, **options: Any) -> asyncio.Server:
        if options.get("ssl"):
            options["ssl_handshake_timeout"] = SILENT
        return await super().create_server(*args, **options)


class Counted:
    """Counts the answers by method and status."""

    def __init__(self, app: ASGIApp, api: Api) -> None:
        self._app, self._api = app, api

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def counting(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                self._api.answers[_method(scope["method"]), str(message["status"])] += 1
            await send(message)

        await self._app(scope, receive, counting)


def _method(name: str) -> str:
    known = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
    return name if name in known else "other"


class Listener:
    """Serves the API of a server while it is entered."""

    def __init__(
        self,
        server: Server,
        public: Path | None = None,
        quotas: Quotas | None = None,
        network: Network | None = None,
    ) -> None:
        """`public`: another socket, for all users of the machine, with these quotas. `network`: an
        address for clients with a token.
        """
        far = _listen(network) if network else None  # first: it may be refused
        run = server.run
        self._server, self._store = server, Store(run.folder.path)
        nodes = list(run.backend.controller.nodes.values())
        self.api = Api(run.folder, self._store, nodes, run.clock.began, lambda: server.beat)
        self._loop: asyncio.AbstractEventLoop = BoundedLoop()
        self.url = ""
        """URL for clients on other machines."""
        self._served: list[tuple[uvicorn.Server, list[socket.socket]]] = []
        sockets = [bind(run.folder.path)]
        app: ASGIApp = self.api.app()
        if public is not None:
            sockets.append(bind_public(public))
            self.api.limits = SubmitLimits(quotas or Quotas(), self._store)
            app = Audited(app, run.folder.data)
        app = Counted(app, self.api)
        self._serve(app, sockets)
        denied = DeniedRequests(run.folder.data).note
        if public is None:
            self._serve_reports(run.folder.path, denied)
        if network is not None and far is not None:
            tokens = Tokens(run.folder.data)
            audited = Audited(app, run.folder.data)
            guarded = Guarded(audited, tokens.name_of, network.names, denied)
            self._serve(guarded, [far], network.context)
            self.url = network.url(far.getsockname()[1])
        self._thread = Thread(target=self._run, name="api", daemon=True)

    def _serve_reports(self, run: Path, denied: Note) -> None:
        """Jobs that run know the port of an earlier server."""
        platform = self._server.run.backend.platform
        channel = ReportChannel.of(run)
        try:
            made = listen(LOCALHOST, channel.port)
        except OSError:
            made = listen(LOCALHOST, 0)
            log.warning("port %d is in use: jobs that run report nothing more to it", channel.port)
        channel.port = made.getsockname()[1]
        channel.store(run)
        self.api.reports = ReportApp(run)
        app = Guarded(self.api.reports, channel.reporter, frozenset({"localhost"}), denied)
        self._serve(app, [made])
        if isinstance(platform, LocalPlatform):
            platform.channel = channel

    def _serve(
        self, app: ASGIApp, sockets: list[socket.socket], context: SSLContext | None = None
    ) -> None:
        config = uvicorn.Config(
            app, http=BoundedProtocol, ws="none", lifespan="off", proxy_headers=False,
            log_config=None, log_level="error", access_log=False, server_header=False,
            limit_concurrency=CONNECTIONS, h11_max_incomplete_event_size=HEAD,
            timeout_keep_alive=int(SILENT), timeout_graceful_shutdown=1, backlog=CONNECTIONS,
        )  # fmt: skip
        config.load()
        config.ssl = context
        self._served.append((uvicorn.Server(config), sockets))

    def __enter__(self) -> Self:
        self._server.changed, self._server.ended = self._changed, self._ended
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for served, _ in self._served:
            served.should_exit = True
        self._call(self.api.changes.close)
        self._thread.join(10.0)
        self._store.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve_all())
        except Exception:  # the outermost guard of this thread: jobs continue without the API
            log.exception("the API has ended")
        finally:
            self._loop.close()
            for _, sockets in self._served:
                for each in sockets:
                    each.close()

    async def _serve_all(self) -> None:
        await asyncio.gather(*(served.serve(sockets=sockets) for served, sockets in self._served))

    def _call(self, what: Any, *values: Any) -> None:
        with suppress(RuntimeError):  # it has ended
            self._loop.call_soon_threadsafe(what, *values)

    # -- in the thread of the loop ---------------------------------------------------------------

    def _changed(self, jobs: tuple[JobStatus, ...]) -> None:
        self._call(self._show, jobs)

    def _ended(self, job: JobId) -> None:
        row = None
        with suppress(BackendError):  # its listeners miss it; the loop goes on
            row = self._server.submissions.find(job)
        if row is not None:
            began = self._server.run.clock.began
            self._call(self._end, submitted_status(self._server.run.folder.id, row, None, began))

    # -- in the thread of the API ----------------------------------------------------------------

    def _show(self, jobs: tuple[JobStatus, ...]) -> None:
        self.api.jobs = {job.job: job for job in jobs}
        self.api.changes.update(job for job in jobs if not job.ended)

    def _end(self, job: JobStatus) -> None:
        self.api.changes.publish(job)


def _listen(network: Network) -> socket.socket:
    try:
        return listen(network.host, network.port)
    except OSError as error:
        where = f"--listen {network.host}:{network.port}"
        raise ConfigError(f"cannot listen here: {error.strerror}", where=where) from None


def bind(run: Path) -> socket.socket:
    """Return a socket that only its user can connect to. The socket of an earlier process is
    replaced.
    """
    with suppress(FileNotFoundError):
        (run / SOCKET).unlink()
    with short_path(run) as path:
        return _bound(Path(path), 0o600)


def bind_public(path: Path) -> socket.socket:
    """Return a socket that every user of this machine can connect to. Users cannot write to its
    folder, so that they cannot replace the socket.
    """
    with socket.socket(socket.AF_UNIX) as other, suppress(OSError):
        other.connect(str(path))
        raise ConfigError("another server of this machine is active", where=str(path))
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    with suppress(FileNotFoundError):
        path.unlink()
    return _bound(path, 0o666)


def _bound(path: Path, mode: int) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        made.bind(str(path))
        path.chmod(mode)  # before it listens
        made.listen(CONNECTIONS)
        made.setblocking(False)
    except BaseException:
        made.close()
        raise
    return made
