"""`record` and `memory`: the two kinds of data class there are, known to the codec by name.

A record is what was seen, decided or done, and never changes: the type checker sees to that,
and a law of the tests. (A class frozen at run time too takes three times as long to make, and
a cycle makes some twenty of them.) A memory belongs to a policy, which may change it in place:
it is handed in, handed back, and never read by the caller in between.
"""

from dataclasses import dataclass
from typing import Any, TypeVar, dataclass_transform

C = TypeVar("C")
KNOWN: dict[str, type[Any]] = {}


def _register(cls: type[C]) -> type[C]:
    KNOWN[cls.__name__] = cls
    return cls


@dataclass_transform(frozen_default=True, kw_only_default=True)
def record(cls: type[C]) -> type[C]:
    return _register(dataclass(slots=True, kw_only=True, unsafe_hash=True)(cls))


@dataclass_transform(kw_only_default=True)
def memory(cls: type[C]) -> type[C]:
    return _register(dataclass(slots=True, kw_only=True)(cls))
