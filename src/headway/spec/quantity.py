"""Amounts as people write them: 500m cores, 4Gi, 90s, 5m."""

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

_NUMBER = re.compile(r"\s*([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z]*)\s*")
_CPU = {"": 1.0, "m": 0.001}
_MEMORY = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12} | {
    f"{prefix}i": 2.0 ** (10 * (i + 1)) for i, prefix in enumerate("KMGT")
}
_TIME = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def _parse(given: Any, units: dict[str, float], what: str, example: str) -> float:
    """A number and its unit.

    >>> _parse("500m", _CPU, "cores", "500m")
    0.5
    """
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        raise ValueError(f"expected {what}, such as {example}")  # noqa: TRY004 - pydantic's way
    if not isinstance(given, str):
        return float(given)
    found = _NUMBER.fullmatch(given)
    if not found:
        raise ValueError(f"{given!r} is not an amount of {what}; write it like {example}")
    number, unit = found.groups()
    if unit not in units:
        known = ", ".join(u for u in units if u)
        raise ValueError(f"{given!r}: {unit!r} is no unit of {what}; there are: {known}")
    return float(number) * units[unit]


def _of(units: dict[str, float], what: str, example: str) -> BeforeValidator:
    return BeforeValidator(lambda given: _parse(given, units, what, example))


def _written(units: dict[str, float]) -> WithJsonSchema:
    """As an API server checks it: a whole number, or a string with a unit."""
    known = "|".join(u for u in units if u)
    pattern = rf"^[0-9]*\.?[0-9]+([eE][+-]?[0-9]+)? *({known})?$"
    return WithJsonSchema(
        {"x-kubernetes-int-or-string": True, "minimum": 0, "pattern": pattern, "maxLength": 32}
    )


_AMOUNT = Field(ge=0, allow_inf_nan=False)
Cpu = Annotated[float, _of(_CPU, "cores", "500m or 0.5"), _AMOUNT, _written(_CPU)]
Memory = Annotated[float, _of(_MEMORY, "memory", "512Mi"), _AMOUNT, _written(_MEMORY)]
Time = Annotated[float, _of(_TIME, "time", "90s or 1.5m"), _AMOUNT, _written(_TIME)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
