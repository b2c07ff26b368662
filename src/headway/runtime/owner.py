"""The user of a machine to which a job belongs."""

import pwd
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Owner:
    uid: int
    gid: int
    name: str = ""
    """Empty: a number without an account."""

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
        """As in the spec of a job and in the journal."""
        return f"{self.uid}:{self.name}"


def parse(text: str) -> tuple[int | None, str]:
    """The uid and the name to show of an `Owner.text`.

    >>> parse("1000:ann"), parse("1000:"), parse("")
    ((1000, 'ann'), (1000, '1000'), (None, ''))
    """
    uid, _, name = text.partition(":")
    return (int(uid), name or uid) if uid else (None, "")
