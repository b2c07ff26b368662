"""The HTTP side of the API server in memory: one handler for each verb."""

import json
import sys
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SHUT_RDWR
from threading import Timer
from time import monotonic, sleep
from urllib.parse import parse_qs, urlsplit


def merged(old, change):
    if isinstance(change, list) and any("$patch" in each for each in change if each):
        gone = {each["name"] for each in change}  # of a strategic merge patch
        return [each for each in old if each["name"] not in gone]
    if not isinstance(change, dict) or not isinstance(old, dict):
        return change
    new = dict(old)
    for key, value in change.items():
        if value is None:
            new.pop(key, None)
        elif key.startswith("$deleteFromPrimitiveList/"):
            name = key.partition("/")[2]
            new[name] = [each for each in old.get(name, ()) if each not in value]
        else:
            new[key] = merged(old.get(key, {} if isinstance(value, dict) else []), value)
    return new


def _selected(each, selector):
    labels = each["metadata"].get("labels") or {}
    if selector.startswith("!"):
        return selector[1:] not in labels
    key, equal, value = selector.partition("=")
    return not key or (labels.get(key) == value if equal else key in labels)


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, *args):
        self._connections = set()
        super().__init__(*args)

    def process_request(self, request, client_address):
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request):
        self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request, client_address):
        """A client that has gone is no error."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def end_connections(self):
        for each in list(self._connections):
            with suppress(OSError):  # its handler may have closed it
                each.shutdown(SHUT_RDWR)


class Handler(BaseHTTPRequestHandler):
    """One request: a method each verb."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet: otherwise, an answer can take 40 ms

    @property
    def fake(self):
        return self.server.fake

    def log_message(self, *_): ...

    def _asked(self):
        parts = urlsplit(self.path)
        words = parts.path.strip("/").split("/")
        words = words[2:] if words[0] == "api" else words[3:]
        space = ""
        if words[0] == "namespaces" and len(words) > 2:
            space, words = words[1], words[2:]
        kind, name, sub = (*words, "", "")[:3]
        query = {k: v[0] for k, v in parse_qs(parts.query).items()}
        size = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(size)) if size else {}
        return kind, space, name, sub, query, body

    def _say(self, status, body, headers=()):
        if self.lost:
            self.close_connection = True
            return
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _no(self, status, why, headers=()):
        self._say(status, {"kind": "Status", "code": status, "message": why}, headers)

    def _serve(self, act):
        kind, space, name, sub, query, body = self._asked()
        self.fake.calls.append((self.command, kind, name, sub))
        self.lost = (self.command, kind, name) in self.fake.unanswered
        self.fake.unanswered.discard((self.command, kind, name))
        while (self.command, kind, space) in self.fake.hanging and not self.fake.closed:
            sleep(0.02)
        refuse = self.fake.refuse
        told = refuse.get((self.command, kind, sub)) or refuse.get((self.command, kind, name, sub))
        if told:
            self._no(*told)
            return
        if self.fake.busy.get((self.command, kind)):
            self.fake.busy[self.command, kind] -= 1
            self._no(429, "too many requests", {"Retry-After": "0"})
            return
        act(kind, space, name, sub, query, body)

    def do_GET(self):
        self._serve(self._get)

    def do_POST(self):
        self._serve(self._post)

    def do_PATCH(self):
        self._serve(self._patch)

    def do_PUT(self):
        self._serve(self._put)

    def do_DELETE(self):
        self._serve(self._delete)

    def _get(self, kind, space, name, sub, query, body):  # noqa: ARG002
        if query.get("watch"):
            self._watch(kind, query, space)
        elif name:
            found = self.fake.get(kind, name, space)
            self._say(200, found) if found else self._no(404, f"{kind} {name} not found")
        else:
            chosen = query.get("labelSelector", "")
            with self.fake.changed:
                items = [o for o in self.fake.all(kind) if _selected(o, chosen)]
                items = [
                    o for o in items if o["metadata"].get("namespace", "") == space or not space
                ]
                about = {"resourceVersion": str(self.fake.version)}
            begin = int(query.get("continue", 0))
            end = begin + int(query.get("limit", len(items) or 1))
            if end < len(items):
                about["continue"] = str(end)
            self._say(200, {"items": items[begin:end], "metadata": about})

    def _watch(self, kind, query, space):
        since, end = int(query["resourceVersion"]), monotonic() + int(query["timeoutSeconds"])
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        while kind in self.fake.dead and not self.fake.closed:
            sleep(0.05)
        while monotonic() < end and not self.fake.closed:
            with self.fake.changed:
                if since < self.fake.compacted:
                    self._line("ERROR", {"code": 410, "message": "too old", "metadata": {}})
                    break
                if kind not in self.fake.stale:
                    chosen = query.get("labelSelector", "")
                    for version, what, of, each in list(self.fake.log):
                        here = space in ("", each["metadata"].get("namespace", space))
                        if version > since and what == kind and here:
                            self._line(of if _selected(each, chosen) else "DELETED", each)
                    since = self.fake.version
                self.fake.changed.wait(0.05)
        self.wfile.write(b"0\r\n\r\n")

    def _line(self, what, each):
        data = json.dumps({"type": what, "object": each}).encode() + b"\n"
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _review(self, asked):
        audience, account, pod, node = self.fake.tokens.get(asked["token"], ("", "", "", ""))
        if audience not in asked["audiences"]:
            return {"error": "invalid"}
        extra = {"pod-uid": [pod], "node-name": [node]} if pod else {}
        extra = {f"authentication.kubernetes.io/{k}": v for k, v in extra.items()}
        user = {"username": f"system:serviceaccount:{account}", "extra": extra}
        return {"authenticated": True, "audiences": [audience], "user": user}

    def _post(self, kind, space, name, sub, query, body):  # noqa: ARG002
        if kind == "tokenreviews":
            self._say(201, {**body, "status": self._review(body["spec"])})
            return
        about = body["metadata"]
        about.setdefault("namespace", space)
        if self.fake.get(kind, about["name"], space):
            self._no(409, f"{kind} {about['name']} already exists")
            return
        body.setdefault("status", {"phase": "Pending"} if kind == "pods" else {})
        self._say(201, self.fake.put(kind, body, space))
        if kind == "pods":
            self.fake.schedule(space, about["name"])

    def _patch(self, kind, space, name, sub, query, body):  # noqa: ARG002
        there = self.fake.get(kind, name, space)
        if there is None:
            self._no(404, f"{kind} {name} not found")
        elif isinstance(body, list):  # a JSON patch: tests of metadata, and a new status
            *tests, status = body
            for each in tests:
                if there["metadata"][each["path"].rpartition("/")[2]] != each["value"]:
                    self._no(422, f"testing value {each['path']} failed: test failed")
                    return
            self._say(200, self.fake.put(kind, {**there, "status": status["value"]}, space))
        elif any(
            body.get("metadata", {}).get(name, there["metadata"][name]) != there["metadata"][name]
            for name in ("uid", "resourceVersion")
        ):
            self._no(409, "Precondition failed: UID in precondition")
        elif sub == "resize":
            self._say(200, self.fake.resize(name, space, body))
        else:
            self._say(200, self.fake.change(kind, name, body, space))
            if kind == "pods":
                self.fake.schedule(space, name)

    def _put(self, kind, space, name, sub, query, body):  # noqa: ARG002
        found = self.fake.get(kind, name, space)
        if found is None:
            self._no(404, f"{kind} {name} not found")
        elif found["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"]:
            self._no(409, "the object has been modified")
        else:
            self._say(200, self.fake.put(kind, body, space))

    def _delete(self, kind, space, name, sub, query, body):  # noqa: ARG002
        found = self.fake.get(kind, name, space)
        if found is None:
            self._no(404, f"{kind} {name} not found")
        elif body.get("preconditions", {}).get("uid", uid := found["metadata"]["uid"]) != uid:
            self._no(409, "Precondition failed: UID in precondition")
        elif kind == "pods" and (
            body.get("gracePeriodSeconds", 1) and found["spec"].get("nodeName")
        ):
            self._say(200, self.fake.delete(name, space, body.get("gracePeriodSeconds", 30)))
            if self.fake.kubelets:
                Timer(0.05, self.fake.ended, (name, space)).start()
        elif found["metadata"].get("finalizers"):
            self._say(200, self.fake.delete(name, space, 0))
        else:
            self._say(200, self.fake.drop(kind, name, space))
