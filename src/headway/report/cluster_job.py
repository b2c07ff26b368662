"""What is known of a job on a cluster, and its events: from its object, the Kubernetes events about
it, and the state that the leader of the operator keeps for the next one.
"""

import time
from collections.abc import Iterator
from dataclasses import replace
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import quote

from headway.backend.kubernetes.client.api import Api, Plain, jobs_path
from headway.backend.kubernetes.client.state_object import StateObject
from headway.backend.kubernetes.platform.job_status import seconds
from headway.backend.kubernetes.platform.other_managers import controller_of
from headway.controller.records import chief
from headway.core.cycle.folded_state import unfold_state
from headway.core.model.units import JobId, Seconds
from headway.errors import BackendError, Declined, UnknownName
from headway.policy.registry import build
from headway.report.explain import PHASES, Event, Explanation
from headway.runtime import leader_state
from headway.runtime.job_facts import JobFacts, Samples, job_facts
from headway.runtime.leader_state import LeaderState
from headway.runtime.usage_sampler import ReplicaSample
from headway.spec.quantity import parse_quantity


class ClusterJob(NamedTuple):
    explanation: Explanation
    missing: str
    """What could not be read, and what is unknown for that reason; "": nothing."""


POD = "pod/"
"""Prefix of the name of an adopted pod."""


def explain_on_cluster(api: Api, namespace: str, name: str, home: str) -> ClusterJob:
    """Explain a TrainingJob, or an adopted pod (`pod/NAME`). `home`: namespace of the operator."""
    job = find_job(api, namespace, name)
    state, missing = None, ""
    try:
        state = leader_state.read(StateObject(api, home))
    except BackendError as error:
        missing = f"size, guarantee and ETA are unknown: the state of the operator {error.message}"
    began = seconds(job["metadata"]["creationTimestamp"])
    events = sorted(_events(api, job, began), key=lambda event: event.at_s)
    facts = (_facts(state, job, name, began) if state else None) or reported(job, began)
    return ClusterJob(
        Explanation(job=f"{namespace}/{name}", events=events, facts=facts, began=began), missing
    )


def find_job(api: Api, namespace: str, name: str) -> Plain:
    """Return a TrainingJob, or an adopted pod (`pod/NAME`)."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    path, what = (pods, "pod") if name.startswith(POD) else (jobs_path(namespace), "job")
    try:
        return api.get(f"{path}/{quote(name.removeprefix(POD), safe='')}")
    except Declined as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        known = [each["metadata"]["name"] for each in api.list(path)[0]]
        wanted = name.removeprefix(POD)
        raise UnknownName(what, wanted, known, where=f"namespace {namespace}") from None


def _events(api: Api, job: Plain, began: float) -> Iterator[Event]:
    """Return the events of a job, and its conditions: Kubernetes deletes events after an hour."""
    yield Event(0.0, "created")
    reasons = set()
    for each in _listed(api, job):
        reasons.add(each["reason"])
        count = int(each.get("count") or 1)
        often = f" ({count} times, first at {each['firstTimestamp']})" if count > 1 else ""
        at = each.get("lastTimestamp") or each["metadata"]["creationTimestamp"]
        yield Event(seconds(at) - began, _word(each["reason"]), f"{each.get('message', '')}{often}")
    for each in (job.get("status") or {}).get("conditions") or ():
        if each.get("reason") and each["reason"] not in reasons:
            what = _word(each["reason"])
            if what not in PHASES:
                what = f"{each['type']}={each['status']} {each['reason']}"
            reasons.add(each["reason"])
            yield Event(seconds(each["lastTransitionTime"]) - began, what, each.get("message", ""))


def _listed(api: Api, job: Plain) -> Iterator[Plain]:
    """Return the Kubernetes events about a job, or about an adopted pod and its owner."""
    about = job["metadata"]
    path = f"/api/v1/namespaces/{about['namespace']}/events"
    for uid in filter(None, (about["uid"], controller_of(job).get("uid"))):
        listed, _ = api.list(path, fieldSelector=f"involvedObject.uid={uid}")
        yield from (each for each in listed if (each["involvedObject"] or {}).get("uid") == uid)


def _word(reason: str) -> str:
    """Return the name of a phase in lower case, as elsewhere; other reasons are unchanged."""
    return reason.lower() if reason.lower() in PHASES else reason


def _facts(kept: LeaderState, job: Plain, given: str, began: float) -> JobFacts | None:
    """Return what the leader knew of a job when it last stored its state; None: nothing."""
    state = unfold_state(kept.state)
    # An operator of one namespace knows its jobs by their names.
    names = JobId(f"{job['metadata']['namespace']}/{given}"), JobId(given)
    name = next((each for each in names if each in state.jobs), None)
    if name is None or (job.get("status") or {}).get("finishTime"):
        return None
    progress = (job.get("status") or {}).get("progress") or {}
    samples = Samples(at=state.at)
    if progress:
        at = max(state.at, seconds(progress["updateTime"]) - kept.began)
        lead = chief(name, [task.name for task in state.jobs[name].spec.tasks])
        samples = Samples(at=at, latest={lead: _sample(progress)})
    known = job_facts(state, build(kept.policy), kept.memory, samples).get(name)
    return known and _since(known, kept.began - began)


def _since(known: JobFacts, by: Seconds) -> JobFacts:
    """Return the facts with times since the creation of the job, not since the run began."""
    times = ("at_s", "decided_s", "guarantee_s", "eta_s")
    given = {name: getattr(known, name) for name in times}
    return replace(known, **{name: at + by for name, at in given.items() if at is not None})


def _sample(progress: Plain) -> ReplicaSample:
    value, cpu = progress.get("value"), progress.get("cpu")
    return ReplicaSample(
        cpu=parse_quantity(cpu) if cpu else 0.0,
        value=float(value) if value else None,
        step=progress.get("step"),
        total=progress.get("totalSteps"),
    )


def reported(job: Plain, began: float) -> JobFacts:
    """Return what the status of a job says."""
    status = job.get("status") or {}
    progress = status.get("progress") or {}
    sample = _sample(progress)
    ended = status.get("finishTime")
    at: Seconds = (seconds(ended) if ended else time.time()) - began
    return JobFacts(
        at_s=at,
        phase=str(status.get("phase", "Pending")).lower(),
        value=sample.value,
        step=sample.step,
        total_steps=sample.total or job["spec"].get("totalSteps"),
        reason=status.get("reason", ""),
        decided_s=at,
    )
