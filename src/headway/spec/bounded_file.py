"""Read users' files in bounded memory; an error names the file and the limit."""

import csv
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from headway.errors import ConfigError

MAX_BYTES = 8 * 2**20
"""Maximum size of a file that is read as a whole."""
MAX_LINE = 64 * 2**10
"""Maximum length of a line in characters."""
MAX_LINES = 1_000_000


def read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) <= MAX_BYTES:
            return data.decode()
    except (OSError, ValueError) as error:
        raise _unreadable(path, "this file", error) from None
    raise ConfigError(
        f"this file is larger than the limit of {MAX_BYTES >> 20} MiB",
        where=str(path),
        hint="describe many equal jobs with `arrivals`",
    )


def read_lines(path: Path, what: str) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            lines = iter(partial(file.readline, MAX_LINE + 1), "")
            for number, line in enumerate(lines, 1):
                if len(line) > MAX_LINE or number > MAX_LINES:
                    limit = f"{MAX_LINE:,} characters in a line"
                    if number > MAX_LINES:
                        limit = f"{MAX_LINES:,} lines"
                    raise ConfigError(
                        f"{what} has more than {limit}", where=f"{path}:{number}", hint="shorten it"
                    )
                yield line
    except (OSError, ValueError) as error:
        raise _unreadable(path, what, error) from None


def csv_rows(lines: Iterable[str], where: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the last line of each row, and its fields. Skips empty rows."""
    rows = csv.reader(lines)
    try:
        for row in rows:
            if row:
                yield rows.line_num, row
    except csv.Error as error:
        raise ConfigError(
            f"invalid CSV: {error}",
            where=f"{where}:{rows.line_num}",
            hint='is a quotation mark (") not closed?',
        ) from None


def _unreadable(path: Path, what: str, error: Exception) -> ConfigError:
    """Of a `ValueError`: invalid UTF-8, or a NUL in the path."""
    why = getattr(error, "strerror", None)
    why = why or ("not UTF-8 text" if isinstance(error, UnicodeDecodeError) else str(error))
    return ConfigError(f"cannot read {what}: {why}", where=str(path))
