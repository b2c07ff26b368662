"""Sizes that users ask for by `spec.elasticReplicas` (`kubectl scale`, an autoscaler).

A request is kept until the state of the job has the size, so that the next leader finds it, too.
"""

from dataclasses import replace

from headway.backend.kubernetes.client.api import Plain
from headway.backend.kubernetes.platform.job_status import JobStatus
from headway.backend.kubernetes.platform.pod_checkpoints import not_movable
from headway.backend.kubernetes.platform.status_writer import StatusWriter
from headway.controller import events
from headway.core.model.job import JobSpec, Phase
from headway.core.model.snapshot import Request


class SizeRequests:
    def __init__(self, writer: StatusWriter, *, can_ask: bool) -> None:
        """`can_ask`: whether pods can be asked to save."""
        self._writer, self._can_ask = writer, can_ask

    def changed(self, record: JobStatus, new: Plain) -> list[events.Event]:
        """Request a changed size. A job without replicas starts in this size."""
        before, wanted = (j["spec"].get("elasticReplicas") for j in (record.job, new))
        return self._wanted(record, wanted) if wanted != before and record.admitted else []

    def missed(self, record: JobStatus) -> list[events.Event]:
        """Request a size that was set while no operator ran, or just before one ended."""
        wanted = record.job["spec"].get("elasticReplicas")
        before = dict(record.state.sizes).get(_scalable(record), record.size)
        return self._wanted(record, wanted) if wanted != before and not record.settled else []

    def _wanted(self, record: JobStatus, count: int | None) -> list[events.Event]:
        task = _scalable(record)
        if not count or not task:
            return []
        why = not_movable(record.spec, can_ask=self._can_ask)[1] if record.state.replicas else ""
        if why and not record.core.task(task).elastic.one_by_one:
            why = f"the number of replicas counts from its next start: {why}"
            self._writer.event(record, "NotScaled", why, warning=True)
            return []
        record.wanted = task, int(count)
        return self.again(record, always=True)

    @staticmethod
    def applied(record: JobStatus, core: JobSpec) -> JobSpec:
        """Return a job in its last size: the cluster may have refused the size in its spec."""
        sizes = dict(record.state.sizes) if record.wanted is None else {}
        tasks = [(t, sizes.get(t.name, t.replicas)) for t in core.tasks]
        fitting = (replace(t, replicas=n) if t.least <= n <= t.most else t for t, n in tasks)
        return replace(core, tasks=tuple(fitting))

    @staticmethod
    def again(record: JobStatus, *, always: bool = False) -> list[events.Event]:
        """Repeat a request that was not possible before, because the job was starting or migrating.
        A scaled job has its size in its state.
        """
        if record.wanted is None:
            return []
        if record.wanted in record.state.sizes:
            record.wanted = None
            return []
        if not always and record.state.phase is not Phase.RUNNING:
            return []
        task, count = record.wanted
        request = Request(job=record.id, wish="scale", task=task, count=count)
        return [events.JobRequested(record.id, request)]


def _scalable(record: JobStatus) -> str:
    return next((t.name for t in record.spec.tasks if t.scalable), "")
