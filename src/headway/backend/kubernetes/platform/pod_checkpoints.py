"""Checkpoints of pods: requested in the answer to a report, and reported by the SDK.

Headway cannot read the volumes of a pod. With `checkpoint: sigterm`, only the exit code shows that
a script has saved.
"""

from collections.abc import Callable, Mapping, Sequence

from headway.backend.exit_reason import STOPPED
from headway.backend.kubernetes.client.api import Plain
from headway.backend.kubernetes.client.informer import Key
from headway.backend.kubernetes.platform.pod_builder import FOLDER
from headway.backend.kubernetes.reports.pod_metrics import PodMetrics
from headway.backend.kubernetes.reports.receiver import ReportReceiver
from headway.backend.worker import EventQueue
from headway.controller.commands import CancelCheckpoint, RequestCheckpoint
from headway.controller.events import CheckpointRead, CommandFailed, Event
from headway.controller.job_state import NO_CHECKPOINT, Checkpoint
from headway.controller.records import chief
from headway.core.model.job import Mode
from headway.core.model.units import JobId, ReplicaId
from headway.spec.manifest import TaskSpec, TrainingJobSpec
from headway.spec.pod_fields import TRAINING

EPHEMERAL = frozenset({
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "name", "projected",
    "secret",
})  # fmt: skip
"""Volumes that are deleted with their pod, or that it cannot write."""
WHOLE = (FOLDER, f"{FOLDER}/checkpoint")
"""Mount paths at which a volume keeps the checkpoints of the SDK."""


class PodCheckpoints:
    def __init__(
        self,
        receiver: ReportReceiver,
        queue: EventQueue,
        pods: Mapping[Key, Plain],
        key: Callable[[ReplicaId, int], Key],
    ) -> None:
        """`key`: returns the key of the pod of an attempt."""
        self._receiver, self._queue, self._pods, self._key = receiver, queue, pods, key
        self._requested: dict[str, CheckpointRead] = {}
        """Last report to the controller by the uid of the pod."""

    def request(self, command: RequestCheckpoint) -> Sequence[Event]:
        pod = self._pods.get(self._key(command.replica, command.attempt))
        if pod is None:
            return [CommandFailed(command, "its pod was deleted")]
        uid = _uid(pod)
        if command.ask:
            self._receiver.checkpoints.add(uid)
        newest = self._newest(uid)
        read = self._requested[uid] = CheckpointRead(command.replica, command.attempt, newest)
        return [read]

    def cancel(self, command: CancelCheckpoint) -> Sequence[Event]:
        pod = self._pods.get(self._key(command.replica, command.attempt))
        if pod is not None:
            self._receiver.checkpoints.discard(_uid(pod))
            self._requested.pop(_uid(pod), None)
        return ()

    def reported(self, pod: Plain, metrics: PodMetrics) -> None:
        """Report a new checkpoint of a pod to the controller."""
        before = self._requested.get(_uid(pod))
        if before is not None and before.checkpoint.mark != metrics.checkpoint:
            newest = self._newest(_uid(pod))
            read = CheckpointRead(before.replica, before.attempt, newest)
            self._requested[_uid(pod)] = read
            self._queue.put(lambda: [read])

    def left(self, pod: Plain) -> None:
        self._requested.pop(_uid(pod), None)

    def at_exit(self, mode: Mode, pod: Plain, attempt: int, code: int) -> Checkpoint:
        """Return the newest checkpoint of a pod that has ended."""
        if mode is Mode.SIGTERM and code == STOPPED:
            return Checkpoint(mark=f"attempt {attempt}")
        return self._newest(_uid(pod)) if mode is Mode.SDK else NO_CHECKPOINT

    def _newest(self, uid: str) -> Checkpoint:
        mark = self._receiver.checkpoint(uid)
        return Checkpoint(mark=mark, verified=True) if mark else NO_CHECKPOINT


def not_movable(spec: TrainingJobSpec, *, can_ask: bool) -> tuple[str, str]:
    """Return why a job cannot continue on another node: reason and message; "": it can. `can_ask`:
    its pods report to this process.
    """
    mode = spec.checkpoint.mode
    if mode == "none":
        return "NoCheckpoint", "it saves no checkpoints: checkpoint.mode is none"
    names = [task.name for task in spec.tasks]
    lead = chief(JobId(""), names).task
    kept = _kept(next(task for task in spec.tasks if task.name == lead))
    if mode == "sigterm" and not kept:
        return "NoVolume", f"what {lead} saves is lost with its pod: it mounts no volume to keep it"
    if mode == "sdk" and not any(path in WHOLE for path in kept):
        return "NoVolume", f"what {lead} saves is lost with its pod: mount a claim at {FOLDER}"
    if mode == "sdk" and not can_ask:
        return "NoReports", "it cannot be asked to save: its pods report to the operator"
    return "", ""


def _kept(task: TaskSpec) -> list[str]:
    """Return the paths of a task at which files outlive the pod."""
    found = [m.path for m in task.mounts if m.claim is not None and not m.read_only]
    given = task.pod_template.spec if task.pod_template is not None else {}
    names = {v.get("name") for v in given.get("volumes") or () if set(v) - EPHEMERAL}
    for container in given.get("containers") or ():
        mounts = (container.get("volumeMounts") or ()) if container.get("name") == TRAINING else ()
        found += [
            str(m.get("mountPath")).rstrip("/")
            for m in mounts
            if m.get("name") in names and not m.get("readOnly")
        ]
    return found


def _uid(pod: Plain) -> str:
    return str(pod["metadata"].get("uid", ""))
