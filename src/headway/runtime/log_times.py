"""When the lines of an output were printed: samples have its size (`printed` in `usage.jsonl`)."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, time, timedelta

from headway.core.model.units import ReplicaId, Seconds
from headway.errors import ConfigError, shown
from headway.runtime.run_directory import RunDirectory

_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(d|h|min|m|s)")
UNITS = {"d": 86400, "h": 3600, "min": 60, "m": 60, "s": 1}


def parse_since(text: str, now: datetime) -> float:
    """Parse how long ago (`10m`, `1h30m`), a clock time of the last day, or a date with a time.
    Return the time of day.

    >>> noon = datetime(2026, 1, 2, 12)
    >>> [datetime.fromtimestamp(parse_since(text, noon)).strftime("%d. %H:%M:%S")
    ...     for text in ("90s", "1h30m", "11:30", "12:30:05", "2026-01-01 08:00")]
    ['02. 11:58:30', '02. 10:30:00', '02. 11:30:00', '01. 12:30:05', '01. 08:00:00']
    """
    if text and not _PART.sub("", text):
        ago = sum(float(number) * UNITS[unit] for number, unit in _PART.findall(text))
        return now.timestamp() - ago
    try:
        at = datetime.combine(now, time.fromisoformat(text)) if ":" in text[:3] else None
        if at is not None:
            return (at if at <= now else at - timedelta(days=1)).timestamp()
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise ConfigError(
            f"{shown(text)} is not a time", where="--since", hint="such as 10m, 1h30m or 14:05"
        ) from None


def printed_until(folder: RunDirectory, replica: ReplicaId, at: float) -> int:
    """Return the size of an output at a time of day, by the last sample before it. A log that was
    cut since then is shown from its beginning.
    """
    until, before, offset = at - float(folder.about["began"]), -1, 0
    for at_s, size in _sizes(folder, replica):
        offset = 0 if size < before else offset
        before = size
        if at_s <= until:
            offset = size
    if before < 0:
        raise ConfigError(
            f"it is not known yet when {replica} printed its output",
            where=f"run {folder.id}",
            hint="use --lines",
        )
    return offset


def _sizes(folder: RunDirectory, replica: ReplicaId) -> Iterator[tuple[Seconds, int]]:
    """Yield when an output had which size."""
    for path in (folder.path / "usage.1.jsonl", folder.usage):
        with suppress(FileNotFoundError), path.open(encoding="utf-8") as file:
            for line in file:
                if replica in line and '"printed"' in line:  # much faster than to parse each
                    with suppress(ValueError, KeyError):  # cut by a crash, or of another replica
                        sample = json.loads(line)
                        yield sample["at_s"], sample["printed"][replica]
