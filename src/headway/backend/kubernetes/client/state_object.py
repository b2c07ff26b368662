"""Bytes that survive a leader: compressed, in config maps of the operator's own namespace.

There are two slots, which are written in turn. A slot is complete if all its parts have the same
number, so that a leader that dies while it writes leaves the state before.
"""

import zlib
from base64 import b64decode, b64encode
from http import HTTPStatus

from headway.backend.kubernetes.client.api import Api, Plain
from headway.errors import BackendError, Declined

NAME = "headway-state"
LABELS = {"app.kubernetes.io/name": "headway", "app.kubernetes.io/component": "state"}
SLOTS = ("a", "b")
PARTS = 4
"""Objects of a slot at most."""
PART = 700_000
"""Bytes of an object; Kubernetes accepts a megabyte."""
_PARTS, _NUMBER = "parts", "number"


class StateTooLarge(BackendError):
    pass


class StateObject:
    def __init__(self, api: Api, namespace: str, part: int = PART) -> None:
        self._api, self._part = api, part
        self._path = f"/api/v1/namespaces/{namespace}/configmaps"
        self._number = 0
        self._seen: dict[str, Plain] = {}
        """Objects as they were last read or written: others are not overwritten."""

    def load(self) -> bytes | None:
        """The newest state that is complete; None: there is none."""
        found = []
        for slot in SLOTS:
            first = self._get(f"{NAME}-{slot}-0")
            about = (first or {}).get("data") or {}
            count, number = (int(about.get(key, 0)) for key in (_PARTS, _NUMBER))
            rest = [self._get(f"{NAME}-{slot}-{i}") for i in range(1, count)]
            there = [
                p for p in (first, *rest) if p and (p["data"] or {}).get(_NUMBER) == str(number)
            ]
            self._number = max(self._number, number)
            if count and len(there) == count:
                found.append((number, there))
        if not found:
            return None
        _, parts = max(found, key=lambda each: each[0])
        return zlib.decompress(b"".join(b64decode(p["binaryData"]["state"]) for p in parts))

    def save(self, data: bytes) -> None:
        """Refused if another process has written since."""
        packed = zlib.compress(data, 6)
        parts = [packed[i : i + self._part] for i in range(0, len(packed), self._part)]
        if len(parts) > PARTS:
            raise StateTooLarge(
                f"the state of the policy has {len(packed)} bytes: at most {PARTS * self._part}"
            )
        number = self._number + 1
        slot = SLOTS[number % len(SLOTS)]
        for i, part in enumerate(parts):
            about = {_PARTS: str(len(parts)), _NUMBER: str(number)}
            self._put(f"{NAME}-{slot}-{i}", about, b64encode(part).decode())
        self._number = number

    def _get(self, name: str) -> Plain | None:
        try:
            self._seen[name] = self._api.get(f"{self._path}/{name}")
        except Declined as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return None
        return self._seen[name]

    def _put(self, name: str, about: dict[str, str], state: str) -> None:
        before = self._seen.get(name) or self._get(name)
        body: Plain = {"apiVersion": "v1", "kind": "ConfigMap", "data": about}
        body |= {"binaryData": {"state": state}}
        if before is None:
            body["metadata"] = {"name": name, "labels": LABELS}
            self._seen[name] = self._api.create(self._path, body)
        else:  # with its version
            body["metadata"] = before["metadata"]
            self._seen[name] = self._api.replace(f"{self._path}/{name}", body)
