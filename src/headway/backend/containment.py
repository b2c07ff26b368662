"""Contain errors that are caused by one job.

An unexpected error while Headway handles the output, files, spec or platform object of a job must
not affect other jobs. It is logged and counted. At the second error of the same cause, the job
fails.
"""

import logging
from dataclasses import dataclass

from headway.core.model.units import JobId

MOST = 2
"""Number of errors of one cause at which a job fails."""
log = logging.getLogger("headway")


class Containment:
    def __init__(self) -> None:
        self.errors: dict[tuple[JobId, str], int] = {}
        """Number of errors by job and cause."""
        self._rejected: dict[JobId, str] = {}

    def of(self, job: JobId, doing: str) -> "_Guard":
        """Return a context manager that notes an error and suppresses it."""
        return _Guard(self, job, doing)

    def note(self, job: JobId, doing: str, error: Exception) -> str:
        """Count an error. Return its description."""
        reason = f"{doing}: unexpected {type(error).__name__}: {error}"
        key = job, f"{doing}: {type(error).__name__}"
        self.errors[key] = count = self.errors.get(key, 0) + 1
        log.warning("job %s: %s (error %d of %d)", job, reason, count, MOST, exc_info=error)
        if count == MOST:
            self._rejected[job] = f"{reason} ({count} times)"
        return reason

    def take_rejected(self) -> dict[JobId, str]:
        """Return the jobs that fail, with the reason. Each job is returned once."""
        taken, self._rejected = self._rejected, {}
        return taken


@dataclass(slots=True)
class _Guard:
    """Context manager that notes and suppresses errors. A class, because one is created
    per event.
    """

    contained: Containment
    job: JobId
    doing: str

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Exception):
            return False
        self.contained.note(self.job, self.doing, error)
        return True
