"""What the backend keeps of each job and each pod, beside what every platform keeps."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from headway.backend.kubernetes.client.api import Plain
from headway.backend.kubernetes.platform.pod_status import KIND, VERSION
from headway.backend.state import Member, Work
from headway.backend.usage import UsageSample
from headway.core.model.job import Phase
from headway.core.model.report import Report
from headway.core.model.units import NodeId, ReplicaId, Seconds
from headway.spec.load import parse
from headway.spec.manifest import TrainingJob, TrainingJobSpec


class PodMember(Member):
    """A replica that is a pod. What it uses and says is not heard yet."""

    def __init__(self, name: ReplicaId, work: Work, node: NodeId, epoch: int) -> None:
        super().__init__(name, work, node)
        self.epoch, self.phase = epoch, Phase.STARTING
        self.replica = name.name
        self.pod: Plain | None = None
        """As last seen."""
        self.grace: Seconds = work.spec.grace
        self.stuck_at: Seconds | None = None
        """Since when its container is said not to start."""
        self.bound_at: Seconds | None = None
        """Since when its node has it, and has not started it."""

    def read(self, before: UsageSample | None) -> UsageSample:
        return before or self.last

    def report(self, now: Seconds) -> Report | None:
        """None: what is not known is not said."""
        del now
        return None


@dataclass(slots=True)
class JobStatus:
    """A `TrainingJob` and what was written to its status."""

    job: Plain
    spec: TrainingJobSpec
    epoch: int = 0
    placement: dict[str, str] = field(default_factory=dict)
    conditions: dict[str, Plain] = field(default_factory=dict)
    enqueued: str = ""
    started: str = ""
    finished: str = ""

    @property
    def uid(self) -> str:
        return str(self.job["metadata"]["uid"])

    @property
    def name(self) -> str:
        return str(self.job["metadata"]["name"])

    @classmethod
    def of(cls, job: Plain, spec: TrainingJobSpec) -> "JobStatus":
        """With what an earlier Headway wrote."""
        said = job.get("status") or {}
        return cls(
            job=job,
            spec=spec,
            epoch=int(said.get("epoch", 0)),
            placement=dict(said.get("placement") or {}),
            conditions={c["type"]: c for c in said.get("conditions") or ()},
            enqueued=said.get("enqueueTime", ""),
            started=said.get("startTime", ""),
            finished=said.get("finishTime", ""),
        )

    def say(self, kind: str, holds: bool, reason: str, message: str) -> None:
        """A condition; its time is that of the last change of what holds."""
        before = self.conditions.get(kind)
        status = "True" if holds else "False"
        since = before["lastTransitionTime"] if before and before["status"] == status else now()
        self.conditions[kind] = {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message[:1024],
            "lastTransitionTime": since,
        }

    def status(self, phase: Phase, reason: str, tries: int) -> Plain:
        """As it is written. What is no longer so is taken away (None)."""
        found: dict[str, Any] = {
            "phase": phase.value,
            "reason": reason,
            "epoch": self.epoch,
            "failures": tries,
            "placement": self.placement or None,
            "conditions": list(self.conditions.values()),
            "enqueueTime": self.enqueued or None,
            "startTime": self.started or None,
            "finishTime": self.finished or None,
            "observedGeneration": self.job["metadata"].get("generation"),
        }
        return found


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds(text: str) -> float:
    """Time of day."""
    return datetime.fromisoformat(text).timestamp()


def spec_of(job: Plain) -> TrainingJobSpec:
    """Checked once more: the API server's schema may be another version's."""
    about = {k: job["metadata"][k] for k in ("name", "namespace")}
    plain = {"apiVersion": VERSION, "kind": KIND, "metadata": about, "spec": job["spec"]}
    text = json.dumps(plain, ensure_ascii=False)
    return parse(text, TrainingJob, where=f"{about['namespace']}/{about['name']}").spec


def arrival(job: Plain) -> tuple[str, str]:
    return job["metadata"]["creationTimestamp"], job["metadata"]["name"]
