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
    axis: str = "jobs on the node"
    series: str = "measured"
    """Of which plot, and of which line in it."""
    title: str = "Cost of one decision"

    def plain(self) -> dict[str, Any]:
        ok = self.bar is None or self.value <= self.bar
        return {
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            "bar": self.bar,
            "pass": ok,
        }
