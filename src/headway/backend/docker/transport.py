"""Keeps the connections to running containers: files, output, usage."""

from collections.abc import Iterable
from functools import partial

from headway.backend.docker import operations
from headway.backend.docker.container_table import ContainerRecord
from headway.controller.events import Event, ReplicaNotice
from headway.core.model.units import Seconds

INTERVAL: Seconds = 0.5
"""Between two copies of files of a container that cannot see our folder."""


def refresh(c: ContainerRecord) -> list[Event]:
    """Copy its files, and follow its output and usage again where a connection was cut."""
    if c.start is not None or not c.engine.up or c.inspecting:
        return []
    if c.sync is not None and not c.syncing:
        c.syncing = True
        done = partial(_synced, c)
        c.engine.worker.do(c.sync.sync, done, done)
    if c.gauge is not None and c.gauge.over:
        c.gauge.close()
        operations.follow_usage(c)
    if c.log is None or not c.log.over.is_set():
        return []
    if not c.log.error:
        c.log = operations.log_follower(c)
    elif not c.log.reported:
        c.log.reported = True
        return [ReplicaNotice(c.replica, c.attempt, f"its log cannot be read: {c.log.error}")]
    return []


def _synced(c: ContainerRecord, result: object) -> Iterable[Event]:
    del result
    c.syncing = False
    return ()
