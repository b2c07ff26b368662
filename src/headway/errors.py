"""Everything this package raises on purpose.

    HeadwayError
    ├─ ConfigError      the user can fix it; names the file and the place
    ├─ UnknownName      no such policy, backend, model; names those there are
    ├─ BackendError     the platform could not be read
    │  ├─ Unreachable   may pass: the next cycle looks again
    │  ├─ Denied        will not pass: a person must grant something
    │  └─ Declined      it understood, and says no in its own words
    ├─ NoServer         nobody is there who could be asked
    └─ PolicyBug        a plan or a memory that breaks the core's own rules: always our fault

A decision that cannot be carried out is no error. It is a `Refused` outcome: it goes to
the journal, and the next cycle decides afresh from what it then sees.
"""

from collections.abc import Iterable
from difflib import get_close_matches


class HeadwayError(Exception):
    """Has a message (what), perhaps a place (where) and a remedy (hint), and an exit code."""

    code = "error"
    exit_code = 1

    def __init__(self, message: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message, self.where, self.hint = message, where, hint

    def plain(self) -> dict[str, dict[str, str]]:
        """As the command line prints it."""
        return {
            "error": {
                "code": self.code,
                "message": self.message,
                "where": self.where,
                "hint": self.hint,
            }
        }


class ConfigError(HeadwayError):
    code, exit_code = "bad-input", 2


class UnknownName(HeadwayError):
    code, exit_code = "unknown-name", 2

    def __init__(self, kind: str, name: str, known: Iterable[str], *, where: str = "") -> None:
        names = list(known)
        close = nearest(name, names)
        hint = f"did you mean {close!r}? " if close else ""
        super().__init__(
            f"no {kind} is called {name!r}",
            where=where,
            hint=f"{hint}there are: {', '.join(sorted(names))}",
        )


class BackendError(HeadwayError):
    code, exit_code = "platform", 3


class Unreachable(BackendError):
    code = "unreachable"


class Denied(BackendError):
    code = "denied"


class Declined(BackendError):
    code = "declined"

    def __init__(self, message: str, *, status: int, where: str = "", hint: str = "") -> None:
        super().__init__(message, where=where, hint=hint)
        self.status = status


class NoServer(HeadwayError):
    code, exit_code = "no-server", 4


class PolicyBug(HeadwayError):
    code = "policy-bug"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that a user most likely meant.

    >>> nearest("polcy", ["policy", "seed"])
    'policy'
    """
    found = get_close_matches(name, list(known), n=1)
    return found[0] if found else None
