"""Convert records to and from JSON, for the journal, the API and the status of a custom resource.

A record becomes a dict with its class name under `is`. Fields with their default value are left
out, which keeps journal lines short. Floats are exact: JSON prints the shortest text that reads
back as the same number.

There are two kinds of data class, both registered here by name. A `record` (an observation, a
decision, an outcome) never changes. The type checker and a property test enforce this, because
freezing at run time makes construction three times slower, and a cycle constructs about twenty
records. A `memory` belongs to a policy, which may change it in place.
"""

import json
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

C = TypeVar("C")
KNOWN: dict[str, Any] = {}


@dataclass_transform(frozen_default=True, kw_only_default=True)
def record(cls: type[C]) -> type[C]:
    KNOWN[cls.__name__] = made = dataclass(slots=True, kw_only=True, unsafe_hash=True)(cls)
    return made


@dataclass_transform(kw_only_default=True)
def memory(cls: type[C]) -> type[C]:
    KNOWN[cls.__name__] = made = dataclass(slots=True, kw_only=True)(cls)
    return made


Plain = Any


def _as_dict(thing: Any) -> Plain:
    """Convert the outermost record. The encoder calls this again for records inside."""
    kind: Any = type(thing)
    out: dict[str, Any] = {"is": kind.__name__}
    defaults, values = _fields(kind)
    for (name, default), value in zip(defaults, values(thing), strict=True):
        if value is not default and value != default:
            out[name] = value
    return out


to_json: Callable[[Any], str] = json.JSONEncoder(
    separators=(",", ":"),
    ensure_ascii=False,
    allow_nan=False,
    check_circular=False,
    default=_as_dict,
).encode
"""Encode records, and containers of records, in one line."""


def to_plain(thing: Any) -> Plain:
    return json.loads(to_json(thing))


def from_plain(plain: Plain) -> Any:
    """Invert `to_plain`. Unknown fields (of another version) are ignored."""
    if isinstance(plain, dict) and "is" in plain:
        cls = KNOWN[plain["is"]]
        convert = _converters(cls)
        return cls(**{k: convert[k](v) for k, v in plain.items() if k in convert})
    if isinstance(plain, list):
        return tuple(from_plain(x) for x in plain)
    return plain


@cache
def _fields(cls: type[Any]) -> tuple[list[tuple[str, Any]], Callable[[Any], tuple[Any, ...]]]:
    """Return the names and defaults of all fields, and a function that reads their values."""
    defaults = [(f.name, f.default) for f in fields(cls)]
    names = [name for name, _ in defaults]
    if len(names) > 1:
        return defaults, attrgetter(*names)
    return defaults, lambda thing: tuple(getattr(thing, name) for name in names)


@cache
def _converters(cls: type[Any]) -> dict[str, Callable[[Plain], Any]]:
    hints = typing.get_type_hints(cls)
    return {f.name: _converter(hints[f.name]) for f in fields(cls)}


Converter = Callable[[Plain], Any]


def _converter(hint: Any) -> Converter:
    """Return a function that restores a value of the declared type. It raises `TypeError` or
    `ValueError` if the value has another type, for example in a file that was changed.
    """
    if isinstance(hint, typing.NewType):
        return _converter(hint.__supertype__)
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _union(inner)
    if origin is list:
        item = _converter(inner[0])
        return lambda plain: [item(x) for x in _checked(plain, list)]
    if origin is tuple:
        return _tuple(inner)
    if origin is dict:
        key, value = _converter(inner[0]), _converter(inner[1])
        return lambda plain: {key(k): value(v) for k, v in _checked(plain, dict).items()}
    if is_dataclass(hint):
        return lambda plain: _checked(from_plain(plain), hint)
    if isinstance(hint, type) and issubclass(hint, Enum | str) and hint is not str:
        return lambda plain: hint(_checked(plain, str))
    if hint in _KINDS:
        return lambda plain: _checked(plain, *_KINDS[hint])
    return from_plain


_KINDS: dict[Any, tuple[type, ...]] = {
    float: (float, int), int: (int,), str: (str,), bool: (bool,), type(None): (type(None),)
}  # fmt: skip


def _checked(value: Any, *kinds: Any) -> Any:
    if type(value) not in kinds:
        raise TypeError(f"{type(value).__name__} instead of {kinds[0].__name__}")
    return value


def _tuple(inner: tuple[Any, ...]) -> Converter:
    if len(inner) == 2 and inner[1] is Ellipsis:
        each = _converter(inner[0])
        return lambda plain: tuple(each(x) for x in _checked(plain, list))
    parts = tuple(_converter(i) for i in inner)
    return lambda plain: tuple(
        part(x) for part, x in zip(parts, _checked(plain, list), strict=True)
    )


def _union(inner: tuple[Any, ...]) -> Converter:
    """Convert `X | None`, or one of several records, which `is` distinguishes."""
    rest = [i for i in inner if i is not type(None)]
    if len(rest) > 1:
        return lambda plain: _checked(from_plain(plain), *inner)
    only = _converter(rest[0])
    return lambda plain: None if plain is None else only(plain)
