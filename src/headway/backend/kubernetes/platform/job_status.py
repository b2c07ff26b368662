"""The record of a TrainingJob, and its status for users and for the next leader."""

import json
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from time import time
from typing import Any

from headway.backend.kubernetes.client.api import Plain, jobs_path
from headway.backend.kubernetes.platform import pod_builder
from headway.controller.job_state import JobState, ReplicaState, from_plain, to_plain
from headway.core.model.capabilities import ALL, Capabilities
from headway.core.model.job import JobSpec, Phase
from headway.core.model.units import JobId, ReplicaId, Seconds
from headway.spec.load import parse
from headway.spec.manifest import TrainingJob, TrainingJobSpec

Leader = tuple[int, str]
"""A number that is larger than that of all earlier leaders, and a random word."""
NO_LEADER: Leader = (0, "")
BY, SIZE = "by", "size"
MESSAGE = 1024
"""Maximum length of the message of a condition or an event."""


@dataclass(slots=True, eq=False)
class JobStatus:
    id: JobId
    job: Plain
    """As last seen in the cluster."""
    spec: TrainingJobSpec
    """Spec from which its pods are created; follows `job` while it has no replicas."""
    core: JobSpec
    """`spec` as it was last reported to the controller."""
    generation: int = 0
    """Generation of `spec`."""
    state: JobState = field(default_factory=JobState)
    """State that the controller last asked to persist."""
    admitted: bool = False
    """Whether its first status is written: the controller has it in its queue, or beyond."""
    rejected: tuple[str, str] = ("", "")
    """Reason and message why it cannot run here."""
    settled: bool = False
    """Whether its end is persisted."""
    suspended: bool = False
    """`spec.suspend` as last reported to the controller."""
    leaving: bool = False
    """Whether it is being deleted. Foreground deletion waits for its pods."""
    gone: bool = False
    """Whether it was deleted from the cluster and has not ended yet."""
    successor: Plain | None = None
    """A job of the same name that was created after it was deleted."""
    version: str = ""
    """Newest known version of the object. A status is written only over this version, so that a
    leader that was paused and replaced cannot write."""
    unwritten: bool = False
    """Whether a status could not be written. It is written when the object is seen again."""
    conditions: dict[str, Plain] = field(default_factory=dict)
    resizable: bool = True
    """Whether the shares of its pods can be changed."""
    exclusive: bool = False
    """Whether a volume can be mounted by one pod at a time, so that the job is not moved."""
    on_one_node: bool = False
    """Whether a volume can be attached to one node at a time, or its access modes are unknown."""
    wanted: tuple[str, int] | None = None
    """Task and number of replicas that a user has requested, until the job has them."""
    size: int | None = None
    """`elasticReplicas` of the manifest with which it was started."""
    enqueued: str = ""
    fitted: tuple[int, int] | None = None
    """The generations of the cluster and of the job for which its tasks were last fitted."""
    progress: Plain = field(default_factory=dict)
    reported: int = 0
    """Newest attempt whose chief has reported, to which `progress` refers."""

    @property
    def uid(self) -> str:
        return str(self.job["metadata"]["uid"])

    def note_version(self, job: Plain) -> None:
        """Note the version of the object from a watch or from the answer to a write."""
        new = str(job["metadata"].get("resourceVersion", ""))
        if not self.version.isdecimal() or not new.isdecimal() or int(new) > int(self.version):
            self.version = new

    @property
    def name(self) -> str:
        return str(self.job["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.job["metadata"]["namespace"])

    @property
    def reference(self) -> Plain:
        """The object that events are about."""
        about = {"name": self.name, "namespace": self.namespace, "uid": self.uid}
        return {**pod_builder.KIND, **about}

    @property
    def path(self) -> str:
        return f"{jobs_path(self.namespace)}/{self.name}"

    @property
    def capabilities(self) -> Capabilities | None:
        """Return the capabilities of the job; None: all."""
        if self.resizable and not self.exclusive:
            return None
        return replace(ALL, shares=self.resizable, migrate=not self.exclusive)

    @property
    def waiting(self) -> bool:
        """Whether its spec may change and its tasks may be fitted to nodes."""
        ended = self.state.phase.ended or self.rejected[0]
        leaves = self.leaving or self.gone
        return self.admitted and not (leaves or ended or self.state.replicas)

    def holds(self, replica: ReplicaId, attempt: int) -> bool:
        """Whether the job's state has this attempt; pods of other attempts are orphans."""
        present = [r for r in self.state.replicas if r.replica == replica]
        return any(attempt in (r.attempt, r.reserved) for r in present)

    def reserves(self, replica: ReplicaId, attempt: int) -> bool:
        """Whether this attempt only holds room for a replica that moves."""
        present = [r for r in self.state.replicas if r.replica == replica]
        return any(attempt == r.reserved for r in present)

    def pod(self, replica: ReplicaId, attempt: int, gang: tuple[ReplicaId, ...]) -> Plain:
        return pod_builder.to_pod(self.job, self.spec, replica, attempt, gang)

    def sample_pods(self) -> dict[str, Plain]:
        """Return a pod of each task, to compute where it fits."""
        first = {t.name: ReplicaId.of(self.id, t.name, 0) for t in self.spec.tasks}
        return {task: self.pod(name, 1, (name,)) for task, name in first.items()}

    def set_condition(self, kind: str, holds: bool | None, reason: str, message: str) -> bool:
        """Set a condition and return whether it has changed. `holds` None: unknown. The transition
        time is the time of the last change of its status.
        """
        before = self.conditions.get(kind)
        status, message = "Unknown" if holds is None else str(holds), message[:MESSAGE]
        since = before["lastTransitionTime"] if before and before["status"] == status else now()
        self.conditions[kind] = {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": since,
            "observedGeneration": self.generation,
        }
        return before != self.conditions[kind]

    def to_plain(self, began: float, leader: Leader = NO_LEADER) -> Plain:
        """Return the whole status. `began`: time of day at which the controller's clock was 0."""
        s = self.state
        scalable = [t.name for t in self.spec.tasks if t.scalable]
        found: dict[str, Any] = {
            "phase": s.phase.value.capitalize(),
            "reason": s.reason,
            "attempt": s.attempt,
            "failures": s.failures,
            "placement": {r.replica.name: r.node for r in s.replicas},
            "nodes": ",".join(dict.fromkeys(r.node for r in s.replicas)),
            "replicas": sum(r.replica.task in scalable or not scalable for r in s.replicas),
            "selector": ",".join(
                [f"{pod_builder.JOB}={self.name}"]
                + [f"{pod_builder.TASK}={name}" for name in scalable[:1]]
            ),
            "progress": {
                k: v for k, v in self.progress.items() if k != "remaining" or not s.phase.ended
            },
            "conditions": list(self.conditions.values()),
            "enqueueTime": self.enqueued,
            "startTime": _timestamp(_shift(s.started_at, began)),
            "finishTime": _timestamp(_shift(s.finished_at, began)),
            "observedGeneration": self.generation,
            "state": encode(s, began, leader, self.size),
        }
        return {k: v for k, v in found.items() if v not in ("", {})}

    def restore(self, began: float) -> None:
        """Take over what an earlier leader wrote, if anything."""
        status = self.job.get("status") or {}
        self.conditions = {c["type"]: c for c in status.get("conditions") or ()}
        self.enqueued = status.get("enqueueTime", "")
        self.progress = status.get("progress") or {}
        if "phase" in status:
            self.state = decode(status, self.id, began)
            self.admitted, self.settled = True, self.state.phase.ended
            self.suspended = self.state.paused
            self.size = _noted(self.job).get(SIZE, self.job["spec"].get("elasticReplicas"))


_JOB = to_plain(JobState())
_REPLICA = asdict(ReplicaState(replica=ReplicaId(""), node="", attempt=0))  # type: ignore[arg-type]


def encode(
    state: JobState, began: float, leader: Leader = NO_LEADER, size: int | None = None
) -> str:
    """Compact: without defaults, replicas by their names within the job, times of day."""
    plain = to_plain(state)
    plain["started_at"] = _shift(state.started_at, began)
    plain["finished_at"] = _shift(state.finished_at, began)
    plain["gang"] = tuple(r.name for r in state.gang)
    plain["restart_as"] = tuple((r.name, node) for r, node in state.restart_as)
    plain["replicas"] = tuple(
        {k: v for k, v in {**each, "replica": r.replica.name}.items() if v != _REPLICA[k]}
        for each, r in zip(plain["replicas"], state.replicas, strict=True)
    )
    changed = {k: v for k, v in plain.items() if v != _JOB[k]}
    return json.dumps({**changed, BY: leader, SIZE: size}, separators=(",", ":"))


def leader_of(job: Plain) -> Leader:
    """The leader that wrote the status of a job."""
    try:
        number, nonce = _noted(job)[BY]
        return int(number), str(nonce)
    except (KeyError, ValueError, TypeError):
        return NO_LEADER


def _noted(job: Plain) -> Plain:
    """The state in the status of a job; empty if there is none, or it cannot be read."""
    try:
        found = json.loads((job.get("status") or {})["state"])
    except (KeyError, ValueError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}


def decode(status: Plain, job: JobId, began: float) -> JobState:
    """The state in a status. If it cannot be read, what the status says for people is used."""
    try:
        plain = {**_JOB, **json.loads(status["state"])}
        plain.pop(BY, None)
        plain.pop(SIZE, None)
        named = [{**_REPLICA, **r} for r in plain["replicas"]]
        plain["gang"] = [f"{job}/{name}" for name in plain["gang"]]
        plain["restart_as"] = [(f"{job}/{name}", node) for name, node in plain["restart_as"]]
        plain["replicas"] = [{**r, "replica": f"{job}/{r['replica']}"} for r in named]
        plain["started_at"] = _shift(plain["started_at"], -began)
        plain["finished_at"] = _shift(plain["finished_at"], -began)
        return from_plain(plain)
    except (KeyError, ValueError, TypeError):
        return _from_readable(status, began)


def _from_readable(status: Plain, began: float) -> JobState:
    ended = status.get("finishTime")
    try:
        phase = Phase(str(status["phase"]).lower())
    except ValueError:
        phase = Phase.PENDING
    return JobState(
        phase=phase if phase.ended else Phase.PENDING,
        reason=status.get("reason", ""),
        attempt=int(status.get("attempt", 0)),
        failures=int(status.get("failures", 0)),
        finished_at=seconds(ended) - began if ended else None,
    )


def _shift(at: Seconds | None, by: float) -> Seconds | None:
    return None if at is None else at + by


def _timestamp(at: float | None) -> str:
    return "" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def now() -> str:
    return _timestamp(time())


def seconds(text: str) -> float:
    """Time of day."""
    return datetime.fromisoformat(text).timestamp()


def spec_of(job: Plain) -> TrainingJobSpec:
    """Validated again: the schema in the API server may be of another version."""
    about = {k: job["metadata"][k] for k in ("name", "namespace")}
    whole = {**pod_builder.KIND, "metadata": about, "spec": job["spec"]}
    text = json.dumps(whole, ensure_ascii=False)
    return parse(text, TrainingJob, where=f"{about['namespace']}/{about['name']}").spec


def arrival(job: Plain) -> tuple[str, str]:
    return job["metadata"]["creationTimestamp"], job["metadata"]["name"]
