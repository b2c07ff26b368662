"""The environment of a replica, on every platform: what SDK, PyTorch and TensorFlow read."""

import json
from collections.abc import Callable, Sequence

from headway.core.model.units import ReplicaId

LOCALHOST = "127.0.0.1"
Address = Callable[[ReplicaId], tuple[str, int]]
"""Host and port at which a replica of a gang can listen."""


def replica_env(
    replica: ReplicaId,
    attempt: int,
    *,
    folder: str,
    gang: Sequence[ReplicaId],
    rendezvous: tuple[str, int],
    address: Address,
) -> dict[str, str]:
    """`gang` by rank; `rendezvous`: where rank 0 of a PyTorch job listens."""
    env = {
        "HEADWAY_DIR": folder,
        "HEADWAY_JOB": replica.job.rpartition("/")[2],
        "HEADWAY_TASK": replica.task,
        "HEADWAY_REPLICA": replica.name,
        "HEADWAY_ATTEMPT": str(attempt),
        "HEADWAY_CHECKPOINT_DIR": f"{folder}/checkpoint",
    }
    if len(gang) > 1:
        hosts: dict[str, list[str]] = {}
        for each in gang:
            hosts.setdefault(each.task, []).append(":".join(map(str, address(each))))
        task = {"type": replica.task, "index": replica.index}
        env |= {
            "MASTER_ADDR": rendezvous[0],
            "MASTER_PORT": str(rendezvous[1]),
            "RANK": str(gang.index(replica)),
            "WORLD_SIZE": str(len(gang)),
            "TF_CONFIG": json.dumps({"cluster": hosts, "task": task}),
        }
    return env


def loopback_env(
    replica: ReplicaId, attempt: int, *, folder: str, gang: Sequence[ReplicaId], first: int
) -> dict[str, str]:
    """For replicas that reach each other on this machine; `first`: of the ports of their job."""
    return replica_env(
        replica,
        attempt,
        folder=folder,
        gang=gang,
        rendezvous=(LOCALHOST, first),
        address=lambda each: (LOCALHOST, first + 1 + gang.index(each)),
    )
