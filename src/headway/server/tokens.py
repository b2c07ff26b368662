"""Tokens of clients that reach the server over TCP: a file with their names and hashes.

A token has 256 random bits, so that a plain hash protects it. The file is read again when it has
changed: a token that is revoked is refused from then on, without a restart of the server.
"""

import fcntl
import json
import logging
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from errno import EACCES
from hashlib import sha256
from pathlib import Path
from re import fullmatch
from secrets import token_urlsafe
from time import time

from headway import private_files
from headway.errors import ConfigError, UnknownName
from headway.runtime.run_directory import private_data

FILE = "tokens.json"
PREFIX = "headway-"
log = logging.getLogger("headway")
NAME = "[A-Za-z0-9][A-Za-z0-9._@-]{0,62}"


@dataclass(frozen=True, slots=True)
class Token:
    name: str
    created: float
    """Time of day."""
    sha256: str


class Tokens:
    """The tokens of a data directory."""

    def __init__(self, data: Path) -> None:
        self.path = data / FILE
        self._seen: tuple[int, int] | None = None
        """Time and inode of the file that was read last."""
        self._names: dict[str, str] = {}
        """Tokens by their hash."""

    def create(self, name: str) -> str:
        """Add a token; return it. It is not stored."""
        if not fullmatch(NAME, name):
            raise ConfigError(
                f"{name!r} is not a name of a token",
                hint="1 to 63 letters, digits and . _ @ -; it begins with a letter or digit",
            )
        made = PREFIX + token_urlsafe(32)
        with self._changing() as known:
            if name in known:
                raise ConfigError(
                    f"there is a token {name!r} already",
                    where=str(self.path),
                    hint=f"headway token revoke {name}",
                )
            known[name] = Token(name, time(), _hash(made))
        return made

    def revoke(self, name: str) -> None:
        with self._changing() as known:
            if name not in known:
                raise UnknownName("token", name, known, where=str(self.path))
            del known[name]

    def list(self) -> list[Token]:
        """The first that was created comes first."""
        return sorted(self._read().values(), key=lambda token: token.created)

    def name_of(self, token: str) -> str | None:
        """Return the name of a token; None: it is not known, was revoked, or the file cannot be
        read.
        """
        try:
            found = self.path.stat()
        except OSError:
            return None
        if (seen := (found.st_mtime_ns, found.st_ino)) != self._seen:
            self._seen, self._names = seen, {}
            try:
                self._names = {each.sha256: each.name for each in self._read().values()}
            except ConfigError as error:
                log.warning("no token is known: %s: %s", error.where, error.message)
        return self._names.get(_hash(token))

    def _read(self) -> dict[str, Token]:
        try:
            with open(self.path, encoding="utf-8", opener=_own) as file:
                listed = json.load(file)["tokens"]
            return {each["name"]: Token(**each) for each in listed}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, KeyError) as error:
            why = f": {error.strerror}" if isinstance(error, OSError) else ""
            raise ConfigError(f"this file cannot be read{why}", where=str(self.path)) from None

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Token]]:
        """Yield the tokens, and store what has become of them; by one process at a time."""
        private_data(self.path.parent)
        lock = private_files.opener(f"{self.path}.lock", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            known = self._read()
            yield known
            fresh = f"{self.path}.part"
            with open(fresh, "w", encoding="utf-8", opener=private_files.opener) as file:
                json.dump({"tokens": [asdict(each) for each in known.values()]}, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            Path(fresh).replace(self.path)
        finally:
            os.close(lock)


def _own(path: str, flags: int) -> int:
    """For `open`: a regular file that only its user can change."""
    file = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
    found = os.fstat(file)
    others = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) or found.st_uid not in (0, os.geteuid())
    if others or not stat.S_ISREG(found.st_mode):
        os.close(file)
        raise OSError(EACCES, "it must be a file that only its user can change")
    return file


def _hash(token: str) -> str:
    return sha256(token.encode(errors="replace")).hexdigest()
