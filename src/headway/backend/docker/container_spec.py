"""Specify the container of an attempt: name, labels, limits, environment, folder."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from headway.backend import memory_admission
from headway.backend.docker import container, cpu_limits
from headway.backend.docker.container_table import ContainerRecord
from headway.backend.replica_env import is_distributed
from headway.controller.commands import Assignment
from headway.core.model.units import Bytes, ReplicaId
from headway.metrics import job_files
from headway.spec.manifest import DEFAULT_CAPABILITIES
from headway.spec.runnable import RunnableJob, environment, threads

LOG = {"Type": "json-file", "Config": {"max-size": "64m", "max-file": "2"}}
ROOT = ("", "0", "root", "0:0")


def container_name(run: str, replica: ReplicaId, attempt: int) -> str:
    """Return a name that is unique for each attempt, so that the engine refuses to create the
    container twice. Names of jobs and tasks contain no underscore.
    """
    return f"headway-{run}-{replica.replace('/', '_')}-{attempt}"


def create_body(
    run: str,
    job: RunnableJob,
    c: ContainerRecord,
    a: Assignment,
    others: Iterable[Bytes],
    ours: Mapping[str, str],
) -> dict[str, Any]:
    """Return the body of the request that creates a container. `others`: requested memory of the
    containers on its node. `ours`: environment variables of Headway.
    """
    node, task = c.engine.node(), job.spec.task(a.replica.task)
    command = job.commands[a.replica.task]
    c.memory_limit = memory_admission.memory_limit(c.declared_memory, node, others)
    env = environment({}, command, threads(task, node), ours)
    mount = {"Type": "bind", "Source": str(c.folder), "Target": str(c.folder)}
    cpus, cores = c.engine.cpus, node.capacity.cpu
    labels = {
        container.RUN: run,
        container.JOB: a.replica.job,
        container.TASK: a.replica.task,
        container.REPLICA: a.replica,
        container.ATTEMPT: str(a.attempt),
        container.NODE: a.node,
    }
    distributed = is_distributed(job.spec)
    if distributed:
        labels[container.GANG] = a.replica.job
    body: dict[str, Any] = {
        "Image": command.image,
        "Env": [f"{key}={value}" for key, value in env.items()],
        "Labels": labels,
        "HostConfig": {
            "Init": True,
            "Mounts": [] if c.engine.apart else [mount],
            "LogConfig": LOG,
            # Replicas of a job reach each other on the network of their machines.
            **({"NetworkMode": "host"} if distributed else {}),
            **_privileges(command.capabilities),
            **cpu_limits.create_body(cpus, cores, task.limit, c.memory_limit),
        },
    }
    if command.argv:
        body["Entrypoint"], body["Cmd"] = list(command.argv), []
    if command.where:
        body["WorkingDir"] = command.where
    if command.user:
        body["User"] = command.user
    elif os.getuid():
        body["User"] = f"{os.getuid()}:{os.getgid()}"  # its files then belong to our user
    return body


def _privileges(capabilities: Sequence[str]) -> dict[str, Any]:
    """Return options that allow only these capabilities and no new privileges."""
    if DEFAULT_CAPABILITIES in capabilities:
        return {}
    return {
        "CapDrop": ["ALL"],
        "CapAdd": list(capabilities),
        "SecurityOpt": ["no-new-privileges"],
    }


def grant_access(user: str, folder: Path) -> None:
    """Allow the user of a container to write to the folder of its replica."""
    if os.getuid() or user in ROOT:
        return
    owner, _, group = user.partition(":")
    if not owner.isdigit():
        for inner in ("", "checkpoint"):
            with job_files.directory(folder, inner) as at:
                os.fchmod(at, 0o777)  # only the image maps this name to a number
        return
    numbers = int(owner), int(group) if group.isdigit() else int(owner)
    with job_files.directory(folder) as at:
        os.fchown(at, *numbers)
    job_files.chown_all(folder, "checkpoint", *numbers)
