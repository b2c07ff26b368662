"""Quantities with units: 500m cores, 4Gi, 90s, 5m."""

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from headway.errors import shown

_NUMBER = re.compile(r"\s*([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z]*)\s*")
SUFFIXES = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3} | {
    f"{prefix}{i}": (2.0**10 if i else 1e3) ** power
    for i in ("", "i")
    for power, prefix in enumerate("KMGTPE", 1)
    if prefix + i != "K"
}
"""The suffixes of Kubernetes."""
_CPU = {unit: SUFFIXES[unit] for unit in ("", "m")}
_MEMORY = {unit: SUFFIXES[unit] for unit in ("", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti")}
_TIME = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def parse_quantity(
    given: Any, units: Mapping[str, float] = SUFFIXES, what: str = "quantity", example: str = "500m"
) -> float:
    """Parse a number with an optional unit.

    >>> parse_quantity("300m"), parse_quantity("2Gi"), parse_quantity("1e3"), parse_quantity(3)
    (0.3, 2147483648.0, 1000.0, 3.0)
    """
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        raise ValueError(f"expected {what}, such as {example}")  # noqa: TRY004 - pydantic's way
    if not isinstance(given, str):
        return float(given)
    found = _NUMBER.fullmatch(given)
    if not found:
        raise ValueError(f"{shown(given)} is not a valid amount of {what}; for example {example}")
    number, unit = found.groups()
    if unit not in units:
        known = ", ".join(u for u in units if u)
        raise ValueError(
            f"{shown(given)}: unknown unit {shown(unit)} of {what}; known units: {known}"
        )
    return float(number) * units[unit]


def parse_time(given: Any) -> float:
    """Parse a time; return seconds."""
    return parse_quantity(given, _TIME, "time", "90s or 1.5m")


def _quantity(units: Mapping[str, float], what: str, example: str) -> BeforeValidator:
    return BeforeValidator(lambda given: parse_quantity(given, units, what, example))


def _schema(units: Mapping[str, float], most: float) -> WithJsonSchema:
    """Return the schema for an API server: a whole number, or a string with a unit."""
    known = "|".join(u for u in units if u)
    pattern = rf"^[0-9]*\.?[0-9]+([eE][+-]?[0-9]+)? *({known})?$"
    return WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            "minimum": 0,
            "maximum": int(most),
            "pattern": pattern,
            "maxLength": 32,
        }
    )


def _between(least: float, most: float) -> Any:
    return Field(ge=least, le=most, allow_inf_nan=False)


_CORES, _BYTES, _SECONDS = 1e6, 2.0**60, 1e10
"""The largest amounts. Sums, products and quotients of amounts within limits are finite."""
Cpu = Annotated[
    float, _quantity(_CPU, "cores", "500m or 0.5"), _between(0, _CORES), _schema(_CPU, _CORES)
]
Memory = Annotated[
    float, _quantity(_MEMORY, "memory", "512Mi"), _between(0, _BYTES), _schema(_MEMORY, _BYTES)
]
Time = Annotated[
    float, _quantity(_TIME, "time", "90s or 1.5m"), _between(0, _SECONDS), _schema(_TIME, _SECONDS)
]
Positive = Annotated[float, _between(1e-9, 1e15)]
Number = Annotated[float, _between(-1e15, 1e15)]
Factor = Annotated[float, _between(1, 1e6)]
Gpus = Annotated[float, _between(0, 1e6)]
Count = Annotated[int, Field(ge=1, le=10_000)]
"""Number of nodes, or of replicas of a task."""
