"""Environment variables of replicas on every platform, for the SDK, PyTorch and TensorFlow."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import takewhile

from headway.core.model.job import Elastic, JobSpec, Task
from headway.core.model.units import ReplicaId

LOCALHOST = "127.0.0.1"
LAST_CALL_S = 5
"""Seconds that torchrun waits for further agents when there are enough. Its default is 30."""
RESTARTS = 10
"""Number of restarts of the training by torchrun. An agent that leaves counts as a failure."""
Address = Callable[[ReplicaId], tuple[str, int]]
"""Returns the host and port on which a replica of a gang can listen."""


def replica_env(
    replica: ReplicaId,
    attempt: int,
    *,
    folder: str,
    gang: Sequence[ReplicaId],
    rendezvous: tuple[str, int],
    address: Address,
    spec: JobSpec,
) -> dict[str, str]:
    """Return the variables. `gang`: the replicas by rank. `rendezvous`: address of rank 0 of a
    PyTorch job. `spec`: spec of the job, which may have several replicas at some time.
    """
    env = {
        "HEADWAY_DIR": folder,
        "HEADWAY_JOB": replica.job.rpartition("/")[2],
        "HEADWAY_TASK": replica.task,
        "HEADWAY_REPLICA": replica.name,
        "HEADWAY_ATTEMPT": str(attempt),
        "HEADWAY_CHECKPOINT_DIR": f"{folder}/checkpoint",
    }
    if is_distributed(spec) or len(gang) > 1:
        hosts: dict[str, list[str]] = {}
        for each in gang:
            hosts.setdefault(each.task, []).append(":".join(map(str, address(each))))
        # Indices of a scaled task may have gaps: TensorFlow needs the position in the list.
        index = [each for each in gang if each.task == replica.task].index(replica)
        task = {"type": replica.task, "index": index}
        env |= {
            "MASTER_ADDR": rendezvous[0],
            "MASTER_PORT": str(rendezvous[1]),
            "RANK": str(gang.index(replica)),
            "WORLD_SIZE": str(len(gang)),
            "TF_CONFIG": json.dumps({"cluster": hosts, "task": task}),
        }
    if spec.task(replica.task).elastic is Elastic.TORCHRUN:
        env |= _torchrun_env(replica, gang, rendezvous, spec.task(replica.task))
    return env


def _torchrun_env(
    replica: ReplicaId, gang: Sequence[ReplicaId], rendezvous: tuple[str, int], task: Task
) -> dict[str, str]:
    """Return variables that set defaults of torchrun's options. The agent of rank 0 hosts the
    rendezvous.
    """
    hosts = str(replica == gang[0]).lower()
    return {
        "PET_NNODES": f"{task.least}:{task.most}",
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": ":".join(map(str, rendezvous)),
        "PET_RDZV_ID": replica.job.rpartition("/")[2],
        "PET_RDZV_CONF": f"is_host={hosts},last_call_timeout={LAST_CALL_S}",
        "PET_MAX_RESTARTS": str(RESTARTS),
    }


def is_distributed(spec: JobSpec) -> bool:
    """Return whether a job may have several replicas at some time."""
    return sum(task.most for task in spec.tasks) > 1


def port_count(spec: JobSpec) -> int:
    """Return the number of ports for a rendezvous and the largest number of replicas."""
    return 1 + sum(task.most for task in spec.tasks)


def port_env(  # noqa: PLR0913 - each is part of an address
    replica: ReplicaId,
    attempt: int,
    *,
    folder: str,
    gang: Sequence[ReplicaId],
    spec: JobSpec,
    first: int,
    hosts: Mapping[ReplicaId, str] | None = None,
    relayed: Collection[ReplicaId] = (),
) -> dict[str, str]:
    """Return the variables of a replica that listens on a port of its machine. `first`: first port
    of the job. A replica has the same port in every size of the job. `hosts`: by default this
    machine. `relayed`: replicas that are reached through a relay, whose ports follow those of the
    job.
    """

    def host(of: ReplicaId) -> str:
        return (hosts or {}).get(of, LOCALHOST)

    def base(of: ReplicaId) -> int:
        return first + (port_count(spec) if of in relayed else 0)

    return replica_env(
        replica,
        attempt,
        folder=folder,
        gang=gang,
        rendezvous=(host(gang[0]), base(gang[0])),
        address=lambda each: (host(each), base(each) + 1 + _slot(spec, each)),
        spec=spec,
    )


def _slot(spec: JobSpec, replica: ReplicaId) -> int:
    """Return the index of a replica among all replicas that its job may have."""
    before = takewhile(lambda task: task.name != replica.task, spec.tasks)
    return sum(task.most for task in before) + replica.index
