"""The format of the files of a run. This module imports little: every command needs it."""

from pathlib import Path

from headway.errors import ConfigError

FORMAT = 2
"""Format of the journal and of the run directory. Format 1 (Headway 0.1) has no number, and other
class names and phases."""


def refuse_format(what: str, path: Path, number: int) -> None:
    """Raise an error if a file has another format than that of this version."""
    if number == FORMAT:
        return
    raise ConfigError(
        f"{what} {path} was written in format {number}; this Headway reads format {FORMAT}",
        where=str(path),
        hint="use Headway 0.1 for it" if number == 1 else "use the version that wrote it",
    )
