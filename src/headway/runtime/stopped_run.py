"""Jobs of a run without a process."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from headway.backend.job_store import JobStore
from headway.core.model.units import JobId
from headway.runtime.job_status import JobStatus
from headway.runtime.run_directory import RunDirectory


def listed_jobs(folder: RunDirectory, names: Collection[str] = ()) -> list[JobStatus]:
    """Return the jobs of a run whose process died before it wrote `status.json`."""
    workload = folder.path / "workload.yaml"
    if not workload.exists():
        return []
    from headway.spec.load import read_stored  # noqa: PLC0415 - slow

    began = float(folder.about.get("began", 0.0))
    return [
        JobStatus(run=folder.id, job=job.name, phase="pending", submitted_s=job.at, began=began)
        for job in read_stored(workload).jobs
        if not names or job.name in names
    ]


def with_states(folder: RunDirectory, jobs: Sequence[JobStatus]) -> list[JobStatus]:
    """Return the jobs with their last stored phase."""
    states = JobStore(folder.path).load(JobId(job.job) for job in jobs)
    found = []
    for job in jobs:
        state = states.get(JobId(job.job))
        if state is not None and not job.ended and state.phase.value != job.phase:
            found.append(
                replace(
                    job,
                    phase=state.phase.value,
                    nodes=tuple(dict.fromkeys(r.node for r in state.replicas)),
                    started_s=state.started_at,
                    finished_s=state.finished_at,
                    reason=state.reason,
                )
            )
        else:
            found.append(job)
    return found
