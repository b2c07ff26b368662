"""The exceptions of this package.

    HeadwayError
    ├─ ConfigError      invalid input; names the file and the place
    ├─ UnknownName      unknown policy, backend or model; lists the known names
    ├─ BackendError     the platform failed
    │  ├─ Unreachable   temporary: the next cycle tries again
    │  ├─ Denied        permanent: a permission is missing
    │  ├─ DiskFull      a file cannot be written
    │  └─ Declined      the platform rejected the request, with its reason
    ├─ NoServer         no Headway process serves the request
    └─ PolicyBug        a plan or a memory that violates the core's rules

A decision that cannot be executed is not an exception but a `Refused` outcome: the journal records
it, and the next cycle observes and decides again.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from errno import EDQUOT, ENOSPC

FULL = {ENOSPC: "the disk is full (ENOSPC)", EDQUOT: "the disk quota is used up (EDQUOT)"}


class HeadwayError(Exception):
    """An error with a message, an optional place (where) and remedy (hint), and an exit code."""

    code = "error"
    exit_code = 1

    def __init__(self, message: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message, self.where, self.hint = message, where, hint

    def plain(self) -> dict[str, dict[str, str]]:
        """Return the error as the JSON of the command line."""
        return {"error": {k: getattr(self, k) for k in ("code", "message", "where", "hint")}}


class ConfigError(HeadwayError):
    code, exit_code = "bad-input", 2


class UnknownName(HeadwayError):
    code, exit_code = "unknown-name", 2

    def __init__(self, kind: str, name: str, known: Iterable[str], *, where: str = "") -> None:
        names = list(known)
        close = nearest(name, names)
        hint = f"did you mean {close!r}? " if close else ""
        there = f"are: {', '.join(sorted(names))}" if names else "is none"
        super().__init__(
            f"no {kind} is called {shown(name)}",
            where=where,
            hint=f"{hint}there {there}",
        )


class BackendError(HeadwayError):
    code, exit_code = "platform", 3


class Unreachable(BackendError):
    code = "unreachable"


class Denied(BackendError):
    code = "denied"


class DiskFull(BackendError):
    """Nothing was stored."""

    def __init__(self, message: str = FULL[ENOSPC], *, where: str = "") -> None:
        super().__init__(
            message,
            where=where or "the data directory",
            hint="free disk space (see df -h), then repeat the command; running jobs continue",
        )


class Declined(BackendError):
    code = "declined"

    def __init__(self, message: str, *, status: int, where: str = "", hint: str = "") -> None:
        super().__init__(message, where=where, hint=hint)
        self.status = status


class NoServer(HeadwayError):
    code, exit_code = "no-server", 4


class PolicyBug(HeadwayError):
    code = "policy-bug"


def reason_of(error: OSError) -> str:
    """Return the reason of an error of the system."""
    return FULL.get(error.errno or 0) or error.strerror or str(error)


def of_file(error: OSError) -> HeadwayError:
    """Return the error of a file as it is shown."""
    where = str(error.filename or "")
    if error.errno in FULL:
        return DiskFull(reason_of(error), where=where)
    hint = "check its permissions and its owner" if isinstance(error, PermissionError) else ""
    return ConfigError(f"cannot use this file: {reason_of(error)}", where=where, hint=hint)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most similar; None: none is similar.

    >>> nearest("polcy", ["policy", "seed"])
    'policy'
    >>> nearest("foo", ["fifo", "flowcon"])
    """
    return next(iter(get_close_matches(name, list(known), n=1, cutoff=0.65)), None)


def shown(value: object) -> str:
    """Return the value as it is shown in a message: at most 60 characters.

    >>> shown("worker"), shown("9" * 100)[-5:]
    ("'worker'", "999…'")
    """
    text = repr(value[:60] if isinstance(value, str) else value)
    if isinstance(value, str) and len(value) > 60:
        return f"{text[:-1]}…{text[-1]}"
    return text if len(text) <= 64 else f"{text[:60]}…"
