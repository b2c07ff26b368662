"""A straight line through points that arrive one by one."""

from headway.core.model.serialization import memory

FEWEST = 3
"""Any line through fewer points fits perfectly."""


@memory
class Trend:
    """Count, means, and centred sums of squares and products, from which a regression follows."""

    count: int = 0
    x: float = 0.0
    y: float = 0.0
    xx: float = 0.0
    yy: float = 0.0
    xy: float = 0.0

    def add(self, x: float, y: float) -> None:
        self.count += 1
        dx, dy = x - self.x, y - self.y
        self.x += dx / self.count
        self.y += dy / self.count
        self.xx += dx * (x - self.x)
        self.yy += dy * (y - self.y)
        self.xy += dx * (y - self.y)

    def at(self, x: float) -> tuple[float, float] | None:
        """Return the value of the line and its error, 1 - R²; None if there are too few points."""
        if self.count < FEWEST or self.xx <= 0:
            return None
        explained = self.xy**2 / (self.xx * self.yy) if self.yy > 0 else 1.0
        return self.y + self.xy / self.xx * (x - self.x), max(0.0, 1.0 - explained)
