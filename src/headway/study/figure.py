"""One figure of a benchmark."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    value: float
    unit: str
    bar: float | None = None
    """At most this; None: for information."""
    x: float | None = None
    """Where it stands on the axis of a plot of growth."""

    def plain(self) -> dict[str, Any]:
        ok = self.bar is None or self.value <= self.bar
        return {
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            "bar": self.bar,
            "pass": ok,
        }
