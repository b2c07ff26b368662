"""The user of a machine to which a job belongs."""

import pwd
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Owner:
    uid: int
    gid: int
    name: str = ""
    """Name of the account; empty: there is none."""

    @classmethod
    def find(cls, uid: int, gid: int) -> Self:
        try:
            return cls(uid, gid, pwd.getpwuid(uid).pw_name)
        except (KeyError, OverflowError):
            return cls(uid, gid)

    @property
    def shown(self) -> str:
        return self.name or str(self.uid)

    @property
    def text(self) -> str:
        """Text form for the spec of a job and the journal."""
        return f"{self.uid}:{self.name}"


def parse(text: str) -> tuple[int | None, str]:
    """Return the uid and the displayed name of an `Owner.text`.

    >>> parse("1000:ann"), parse("1000:"), parse("")
    ((1000, 'ann'), (1000, '1000'), (None, ''))
    """
    uid, _, name = text.partition(":")
    return (int(uid), name or uid) if uid else (None, "")
