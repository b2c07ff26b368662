"""A table with a few entries changed, at the cost of those few: how `foresee` shares structure."""

from collections.abc import Iterator, Mapping
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Overlay(Mapping[K, V]):
    """`base` as it would be with some entries set and some removed. Never writes to `base`."""

    __slots__ = ("_base", "_removed", "_set")

    def __init__(self, base: Mapping[K, V]) -> None:
        self._base = base
        self._set: dict[K, V] = {}
        self._removed: set[K] = set()

    def put(self, key: K, value: V) -> None:
        self._set[key] = value
        self._removed.discard(key)

    def drop(self, key: K) -> None:
        self._set.pop(key, None)
        if key in self._base:
            self._removed.add(key)

    def __getitem__(self, key: K) -> V:
        if key in self._set:
            return self._set[key]
        if key in self._removed:
            raise KeyError(key)
        return self._base[key]

    def __iter__(self) -> Iterator[K]:
        """Entries of the base keep their place, new ones come last."""
        for key in self._base:
            if key not in self._removed:
                yield key
        for key in self._set:
            if key not in self._base:
                yield key

    def __len__(self) -> int:
        new = sum(key not in self._base for key in self._set)
        return len(self._base) - len(self._removed) + new
