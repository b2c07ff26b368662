"""What a user asks for: pause, resume, cancel. To suspend, move or scale a running job is for the
policy to decide, which gets the request with the next observation.
"""

from headway.controller import lifecycle
from headway.controller.commands import Command
from headway.controller.phases import Cause, allows
from headway.controller.records import JobRecord, Records
from headway.core.model.job import Phase
from headway.core.model.snapshot import Request, Trigger
from headway.core.model.units import Seconds


def request(records: Records, asked: Request, now: Seconds) -> list[Command]:
    job = records.jobs.get(asked.job)
    if job is None:
        return []
    records.news.requests.append(asked)
    records.news.triggers.append(Trigger.ASKED)
    if asked.wish == "cancel":
        return lifecycle.cancel(job, "cancelled by a user", now)
    if asked.wish in ("pause", "resume") and not job.phase.ended:
        return _pause(job, asked.wish == "pause" and _can_pause(job))
    return []


def _pause(job: JobRecord, paused: bool) -> list[Command]:
    """A paused job stays out of the queue until it is resumed."""
    if paused == job.paused:
        return []
    job.paused = paused
    if paused and job.arrived and allows(job.phase, Cause.PAUSE):
        job.go(Cause.PAUSE, Phase.PAUSED)
    elif not paused and allows(job.phase, Cause.RESUME):
        job.go(Cause.RESUME, Phase.PENDING)
        job.news.triggers.append(Trigger.ARRIVED)
    return job.persist()


def _can_pause(job: JobRecord) -> bool:
    """Without replicas any job can wait; with replicas it must be suspended."""
    can_suspend = job.checkpoints and job.config.can_suspend
    return not job.replicas or (job.phase is Phase.RUNNING and can_suspend)
