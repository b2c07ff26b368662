"""A Docker engine of nothing but processes: it speaks as much of the API as we use, on a socket.

It makes the backend's own ways quick to test. What a real engine does is asked of real ones, in
`tests/real/test_docker*.py`.
"""

import io
import json
import os
import signal
import socketserver
import subprocess
import sys
import tarfile
import threading
from contextlib import suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from time import sleep
from urllib.parse import parse_qsl, urlsplit

IMAGE = "headway-workloads:test"
SAFELY = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
"""Python has the filter from 3.11.4 on."""


class Container:
    def __init__(self, engine, name, made):
        self.engine, self.name, self.made = engine, name, made
        self.id = f"{next(engine.numbers):064x}"
        self.host = {"NanoCpus": 0, "CpuQuota": 0, "CpuPeriod": 0, **made["HostConfig"]}
        self.root = engine.folder / self.id[-8:]
        self.root.mkdir()
        self.mounts = [m["Source"] for m in self.host.get("Mounts") or ()]
        self.process, self.code, self.state = None, 0, "created"
        self.lines, self.heard = [], threading.Condition()

    def there(self, path):
        """Where a path of the container lies: where we have it, or below its own root."""
        return Path(path) if any(path.startswith(m) for m in self.mounts) else self.root / path[1:]

    def start(self):
        words = [*(self.made.get("Entrypoint") or ()), *(self.made.get("Cmd") or ())]
        words = [sys.executable if w == "python3" else w for w in words]
        env = {**os.environ, **dict(e.split("=", 1) for e in self.made.get("Env", ()))}
        for name in ("HEADWAY_DIR", "HEADWAY_CHECKPOINT_DIR"):
            if name in env:
                env[name] = str(self.there(env[name]))
        self.process = subprocess.Popen(
            words, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
        )
        self.state = "running"
        self.engine.tell("start", self)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        for line in self.process.stdout:
            self._print(line)
        code = self.process.wait()
        self.process.stdout.close()
        self.code = code if code >= 0 else 128 - code
        self.state = "exited"
        self._print(None)
        self.engine.tell("die", self, exitCode=str(self.code))

    def _print(self, line):
        now = datetime.now(UTC).isoformat(timespec="microseconds")[:26]
        with self.heard:
            self.lines.append(None if line is None else f"{now}000Z ".encode() + line)
            self.heard.notify_all()

    def kill(self, number):
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)

    def inspect(self):
        pid = self.process.pid if self.state == "running" else 0
        return {
            "Id": self.id,
            "Name": f"/{self.name}",
            "RestartCount": 0,
            "Config": {**self.made, "User": self.made.get("User", "")},
            "HostConfig": self.host,
            "Mounts": [{"Source": m, "Destination": m} for m in self.mounts],
            "State": {
                "Status": self.state, "Running": self.state == "running", "Pid": pid,
                "ExitCode": self.code, "OOMKilled": False, "Error": "",
            },
        }  # fmt: skip


class FakeEngine:
    def __init__(self, folder, *, version="1.41", hidden="", images=(IMAGE,)):
        self.folder, self.version, self.hidden, self.images = folder, version, hidden, images
        folder.mkdir(parents=True, exist_ok=True)
        self.containers, self.made, self.listening = {}, [], []
        self.numbers = count(1)
        self.path = folder / "sock"
        self.url = f"unix://{self.path}"
        self.server = None
        self.go()

    def go(self):
        handler = type("Bound", (Handler,), {"engine": self})
        self.server = Server(str(self.path), handler)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def away(self):
        """As when it is stopped: nobody answers any more."""
        self.server.shutdown()
        self.server.server_close()
        self.path.unlink()
        for each in self.listening:
            each.put(None)

    def tell(self, what, container, **attributes):
        labels = container.made.get("Labels") or {}
        actor = {"ID": container.id, "Attributes": {**labels, **attributes}}
        for each in self.listening:
            each.put({"Type": "container", "Action": what, "Actor": actor})

    def create(self, name, made):
        container = Container(self, name, made)
        self.made.append(container)
        self.containers[container.id] = container
        return container

    def find(self, name):
        for each in self.containers.values():
            if name in (each.id, each.name):
                return each
        return None

    def close(self):
        for each in self.made:
            each.kill(signal.SIGKILL)
        if self.path.exists():
            self.away()


class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """Who hangs up is no error."""


class Handler(BaseHTTPRequestHandler):
    engine = None

    def address_string(self):
        return "us"

    def log_message(self, *words):
        """Says nothing."""

    def do_GET(self):
        where = urlsplit(self.path)
        self.query = dict(parse_qsl(where.query))
        path = where.path.removeprefix("/v1.41")
        words = path.strip("/").split("/")
        if words[0] == "images" and self.command == "GET":
            name = path.removeprefix("/images/").removesuffix("/json")
            self._answer({} if name in self.engine.images else None)
        elif words[0] == "containers" and len(words) > 1 and words[1] not in ("json", "create"):
            self._container(words[1], words[2] if len(words) > 2 else "")
        else:
            getattr(self, f"_{words[0].strip('_')}_{words[-1].strip('_')}")()

    do_POST = do_PUT = do_DELETE = do_HEAD = do_GET  # noqa: N815 - so they are called

    # -- the engine ------------------------------------------------------------------------------

    def _version_version(self):
        self._answer(
            {"ApiVersion": self.engine.version, "MinAPIVersion": "1.12", "Version": "fake"}
        )

    def _info_info(self):
        self._answer({"NCPU": 2, "MemTotal": 2**33})

    def _ping_ping(self):
        self._answer("OK")

    def _events_events(self):
        mine = SimpleQueue()
        self.engine.listening.append(mine)
        self._stream()
        while (told := mine.get()) is not None:
            self.wfile.write(json.dumps(told).encode() + b"\n")
            self.wfile.flush()

    def _containers_json(self):
        wanted = json.loads(self.query.get("filters", "{}")).get("label", [])
        found = []
        for each in self.engine.containers.values():
            labels = each.made.get("Labels") or {}
            pairs = (w.partition("=") for w in wanted)
            if all(k in labels and (not eq or labels[k] == v) for k, eq, v in pairs) and (
                "all" in self.query or each.state == "running"
            ):
                found.append({"Id": each.id, "Names": [each.name]})
        self._answer(found)

    def _containers_create(self):
        made, engine = json.loads(self._body()), self.engine
        if engine.find(self.query["name"]):
            self._decline(409, "the name is in use")
        elif made["Image"] not in engine.images:
            self._decline(404, f"No such image: {made['Image']}")
        elif engine.hidden and made["HostConfig"].get("Mounts"):
            self._decline(400, "invalid mount config: bind source path does not exist")
        else:
            self._answer({"Id": engine.create(self.query["name"], made).id})

    # -- a container -----------------------------------------------------------------------------

    def _container(self, name, what):
        container = self.engine.find(name)
        if container is None:
            self._decline(404, f"No such container: {name}")
        elif self.command == "DELETE":
            container.kill(signal.SIGKILL)
            self.engine.containers.pop(container.id, None)
            self.engine.tell("destroy", container)
            self._answer("")
        elif what == "json":
            self._answer(container.inspect())
        else:
            getattr(self, f"_one_{what}")(container)

    def _one_start(self, container):
        try:
            container.start()
        except OSError as error:
            self._decline(400, str(error))
        else:
            self._answer("")

    def _one_kill(self, container):
        if container.state != "running":
            self._decline(409, f"Container {container.id} is not running")
            return
        container.kill(signal.Signals[self.query["signal"]])
        self._answer("")

    def _one_update(self, container):
        asked = json.loads(self._body())
        if asked.get("NanoCpus", 0) > 2e9:
            self._decline(400, "Range of CPUs is from 0.01 to 2.00")
        else:
            container.host.update(asked)
            self._answer({"Warnings": None})

    def _one_stats(self, container):
        self._stream()
        while container.state == "running":
            used = {"cpu_usage": {"total_usage": 10**9 * len(container.lines)}}
            said = {"cpu_stats": used, "memory_stats": {"stats": {"total_rss": 2**20}}}
            self.wfile.write(json.dumps(said).encode() + b"\n")
            self.wfile.flush()
            sleep(0.1)

    def _one_logs(self, container):
        self._stream()
        with container.heard:
            at = 0 if self.query.get("tail") == "all" else len(container.lines)
        while True:
            with container.heard:
                while len(container.lines) <= at:
                    container.heard.wait(0.2)
                line = container.lines[at]
            at += 1
            if line is None:
                return
            self.wfile.write(b"\1\0\0\0" + len(line).to_bytes(4, "big") + line)
            self.wfile.flush()

    def _one_archive(self, container):
        there = container.there(self.query["path"])
        if self.command == "PUT":
            with tarfile.open(fileobj=io.BytesIO(self._body())) as tar:
                tar.extractall(there, **SAFELY)  # noqa: S202 - our own tests wrote it
            self._answer("")
        elif not there.exists():
            self._decline(404, "no such file")
        elif self.command == "HEAD":
            seen = there.stat()
            self._answer("", {"X-Docker-Container-Path-Stat": f"{seen.st_size}-{seen.st_mtime_ns}"})
        else:
            buffer = io.BytesIO()
            with tarfile.open(fileobj=buffer, mode="w") as tar:
                tar.add(there, there.name)
            self._answer(buffer.getvalue())

    # -- answers ---------------------------------------------------------------------------------

    def _body(self):
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _answer(self, what, headers=None):
        if what is None:
            self._decline(404, "No such image")
            return
        data = what if isinstance(what, bytes) else b"" if what == "" else json.dumps(what).encode()
        self.send_response(200)
        kind = "application/x-tar" if isinstance(what, bytes) else "application/json"
        for name, value in {"Content-Type": kind, **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _decline(self, status, message):
        data = json.dumps({"message": message}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _stream(self):
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream")
        self.end_headers()
        self.wfile.flush()
