"""What a replica finds in its environment, and by what those of a gang find each other."""

import json
from typing import Any
from zlib import crc32

from headway.backend.state import Member

HERE = "127.0.0.1"


def told(m: Member) -> dict[str, str]:
    found = {
        "HEADWAY_DIR": str(m.folder),
        "HEADWAY_JOB": m.work.id,
        "HEADWAY_TASK": m.task,
        "HEADWAY_REPLICA": m.id,
        "HEADWAY_EPOCH": str(m.epoch),
        "HEADWAY_CHECKPOINT_DIR": str(m.folder / "checkpoint"),
    }
    rank, size = m.rank
    if size > 1:
        port = 20000 + crc32(m.work.id.encode()) % 10000
        found |= {"MASTER_ADDR": HERE, "MASTER_PORT": str(port)}
        found |= {"RANK": str(rank), "WORLD_SIZE": str(size)}
        found["TF_CONFIG"] = json.dumps(_cluster(m, port + 1))
    return found


def _cluster(m: Member, first: int) -> dict[str, Any]:
    """As TensorFlow is told of it: each of a gang listens at a port of its own."""
    hosts: dict[str, list[str]] = {}
    for port, name in enumerate(m.work.gang, first):
        hosts.setdefault(name.task, []).append(f"{HERE}:{port}")
    return {"cluster": hosts, "task": {"type": m.task, "index": m.id.index}}
