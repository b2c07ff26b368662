"""What a replica finds in its environment, and by what those of a gang find each other."""

from zlib import crc32

from headway.backend.state import Member


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
        found |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        found |= {"RANK": str(rank), "WORLD_SIZE": str(size)}
    return found
