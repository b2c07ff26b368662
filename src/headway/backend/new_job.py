"""Convert a runnable job for the controller."""

from headway.controller.events import NewJob
from headway.spec.runnable import RunnableJob


def new_job(job: RunnableJob) -> NewJob:
    return NewJob(
        id=job.id,
        spec=job.spec,
        submitted_at=job.at,
        adopted=job.adopted is not None,
        node=job.node,
        time_limit=job.time_limit,
        ttl=job.ttl,
    )
