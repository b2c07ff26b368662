"""Errors that one job causes are contained to that job.

An error in the code that handles a job's output, files, spec or platform object says nothing about
the other jobs. It is logged and counted; at the second error of the same cause the job has failed.
"""

import logging
from dataclasses import dataclass

from headway.core.model.units import JobId

MOST = 2
"""Errors of one cause at which a job is given up."""
log = logging.getLogger("headway")


class Containment:
    def __init__(self) -> None:
        self.errors: dict[tuple[JobId, str], int] = {}
        """How often each job caused an error, by what was done and what went wrong."""
        self._rejected: dict[JobId, str] = {}

    def of(self, job: JobId, doing: str) -> "_Guard":
        """Return a context manager that notes an error and suppresses it."""
        return _Guard(self, job, doing)

    def note(self, job: JobId, doing: str, error: Exception) -> str:
        """Count an error; return what happened, in words."""
        reason = f"{doing}: unexpected {type(error).__name__}: {error}"
        key = job, f"{doing}: {type(error).__name__}"
        self.errors[key] = count = self.errors.get(key, 0) + 1
        log.warning("job %s: %s (error %d of %d)", job, reason, count, MOST, exc_info=error)
        if count == MOST:
            self._rejected[job] = f"{reason} ({count} times)"
        return reason

    def take_rejected(self) -> dict[JobId, str]:
        """The jobs to give up, with the reason; each once."""
        taken, self._rejected = self._rejected, {}
        return taken


@dataclass(slots=True)
class _Guard:
    """The outermost guard of a job. A class, because every event enters one."""

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
