"""State that the next leader reads: compressed, in config maps of the operator's namespace.

There are two slots. A write goes to the slot that does not have the newest state. A slot is
complete if all its parts are of the same write, so that a leader that dies during a write leaves
the state before.
"""

import logging
import zlib
from base64 import b64decode, b64encode
from http import HTTPStatus
from uuid import uuid4

from headway.backend.kubernetes.client.api import Api, Plain
from headway.errors import BackendError, Declined

NAME = "headway-state"
LABELS = {"app.kubernetes.io/name": "headway", "app.kubernetes.io/component": "state"}
SLOTS = ("a", "b")
PARTS = 4
"""Maximum number of objects of a slot."""
PART = 700_000
"""Size of an object in bytes; Kubernetes accepts a megabyte."""
_PARTS, _NUMBER, _WRITER = "parts", "number", "writer"
log = logging.getLogger("headway")


class StateTooLarge(BackendError):
    pass


class StateObject:
    def __init__(self, api: Api, namespace: str, part: int = PART) -> None:
        self._api, self._part = api, part
        self._path = f"/api/v1/namespaces/{namespace}/configmaps"
        self._writer = uuid4().hex
        self._number = 0
        """Number of the last write."""
        self._newest = SLOTS[0]
        """The slot with the newest state."""
        self._seen: dict[str, Plain] | None = None
        """Objects as last read or written. Objects of another version are not overwritten."""
        self._sure = False
        """Whether the result of the last write is known."""

    def load(self) -> bytes | None:
        """Return the newest complete state; None: there is none."""
        seen: dict[str, Plain] = {}
        found = [(*self._read(slot, seen), slot) for slot in SLOTS]
        self._check(seen)
        self._seen, self._sure = seen, True
        self._number = max(self._number, *(number for number, *_ in found))
        for _, data, slot in sorted(found, key=lambda each: -each[0]):
            if data is not None:
                self._newest = slot
                return data
        return None

    def _read(self, slot: str, seen: dict[str, Plain]) -> tuple[int, bytes | None]:
        """Return the number and the content of a slot; None: it is incomplete or damaged."""
        about = _about(self._get(f"{NAME}-{slot}-0", seen))
        count, number = (_count(about.get(key)) for key in (_PARTS, _NUMBER))
        parts = [self._get(f"{NAME}-{slot}-{i}", seen) for i in range(min(count, PARTS))]
        if not parts or len(parts) < count or any(_about(p) != about for p in parts):
            return number, None
        try:
            packed = b"".join(b64decode(p["binaryData"]["state"]) for p in parts if p)
            return number, zlib.decompress(packed)
        except (LookupError, TypeError, ValueError, zlib.error) as error:
            log.warning("the state %s-%s is damaged and ignored: %s", NAME, slot, error)
        return number, None

    def _check(self, seen: dict[str, Plain]) -> None:
        """Raise `Declined` if another process has written: each write begins with the first part of
        a slot.
        """
        for name in (f"{NAME}-{slot}-0" for slot in SLOTS):
            if self._seen is None or name not in seen:
                continue
            same = _version(seen[name]) == _version(self._seen.get(name))
            if not same and _about(seen[name]).get(_WRITER) != self._writer:
                why = "another process has written the state since"
                raise Declined(why, status=HTTPStatus.CONFLICT, where=name)

    def save(self, data: bytes) -> None:
        """Write the state. Raise `Declined` if another process has written. After an error, the
        next call first reads what was written.
        """
        packed = zlib.compress(data, 6)
        parts = [packed[i : i + self._part] for i in range(0, len(packed), self._part)]
        if len(parts) > PARTS:
            raise StateTooLarge(
                f"the state of the policy has {len(packed)} bytes: at most {PARTS * self._part}"
            )
        if not self._sure:
            self.load()
        self._sure = False
        self._number += 1
        about = {_PARTS: str(len(parts)), _NUMBER: str(self._number), _WRITER: self._writer}
        slot = next(s for s in SLOTS if s != self._newest)
        for i, part in enumerate(parts):
            self._put(f"{NAME}-{slot}-{i}", about, b64encode(part).decode())
        self._newest, self._sure = slot, True

    def _get(self, name: str, seen: dict[str, Plain]) -> Plain | None:
        if name not in seen:
            try:
                seen[name] = self._api.get(f"{self._path}/{name}")
            except Declined as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    raise
                return None
        return seen[name]

    def _put(self, name: str, about: dict[str, str], state: str) -> None:
        seen = self._seen = self._seen or {}
        before = self._get(name, seen)
        body: Plain = {"apiVersion": "v1", "kind": "ConfigMap", "data": about}
        body |= {"binaryData": {"state": state}}
        if before is None:
            body["metadata"] = {"name": name, "labels": LABELS}
            seen[name] = self._api.create(self._path, body)
        else:  # with its version
            body["metadata"] = before["metadata"]
            seen[name] = self._api.replace(f"{self._path}/{name}", body)


def _about(part: Plain | None) -> Plain:
    return (part or {}).get("data") or {}


def _version(part: Plain | None) -> str | None:
    return None if part is None else str(part["metadata"]["resourceVersion"])


def _count(given: str | None) -> int:
    """Parse a number; 0: there is none, or it is damaged."""
    return int(given) if given and given.isdecimal() and len(given) < 19 else 0
