"""A figure of a benchmark."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    value: float
    unit: str
    bar: float | None = None
    """The largest value that passes; None: not judged."""
    x: float | None = None
    """Its place on the axis of a chart; None: not drawn."""
    axis: str = "jobs on the node"
    series: str = "measured"
    """Its line in the chart of its axis."""
    title: str = "Cost of one decision"

    def plain(self) -> dict[str, Any]:
        shown = {key: getattr(self, key) for key in ("name", "value", "unit", "bar")}
        return {**shown, "pass": self.bar is None or self.value <= self.bar}
