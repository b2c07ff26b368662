"""Calls to an engine about one container. They block and run in the engine's worker."""

from collections.abc import Iterable
from http import HTTPStatus
from time import sleep
from typing import Any

from headway import failpoint
from headway.backend.docker import container_spec, cpu_limits, stats
from headway.backend.docker.container import ContainerState, to_state
from headway.backend.docker.container_table import ContainerRecord
from headway.backend.docker.file_sync import FileSync
from headway.backend.docker.log_follower import LogFollower
from headway.backend.exit_reason import KILLED
from headway.controller import events
from headway.core.model.units import Bytes, Cores, Seconds
from headway.errors import Declined

LOOKS = 5
"""Number of times that a killed container is inspected to find the reason."""
REMOVAL: Seconds = 0.2
"""Time from the kill of a container by a forced removal until it is removed."""
LAST_OUTPUT: Seconds = 1.0
"""Time to wait for the last output of an exited container."""
REFRESH: Seconds = 0.5
"""Interval between two copies of files of a container that cannot access our folder."""


def inspect(c: ContainerRecord) -> ContainerState:
    return to_state(c.engine.client.get(f"/containers/{c.name}/json"))


def launch(c: ContainerRecord, body: dict[str, Any]) -> ContainerState:
    """Create and start a container, and upload files that it cannot access. Steps are
    not repeated.
    """
    failpoint.hit("docker.create")
    try:
        c.engine.client.post("/containers/create", body, name=c.name)
    except Declined as error:
        unseen = error.status == HTTPStatus.BAD_REQUEST and "bind source" in error.message
        if unseen and not c.engine.apart:
            c.engine.apart, body["HostConfig"]["Mounts"] = True, []
            return launch(c, body)
        if error.status != HTTPStatus.CONFLICT:
            raise
    seen = inspect(c)
    if seen.state == "created":
        if str(c.folder) in seen.shared:
            container_spec.grant_access(seen.user, c.folder)
        else:
            _sync(c, seen).upload()
        failpoint.hit("docker.start")
        c.engine.client.post(f"/containers/{c.name}/start")
    return attach(c)


def attach(c: ContainerRecord) -> ContainerState:
    """Follow a container that runs already."""
    seen = inspect(c)
    follow(c, seen)
    return seen


def follow(c: ContainerRecord, seen: ContainerState) -> None:
    """Start reading output and usage of a container."""
    c.close()
    _follow_log(c, seen)
    follow_usage(c, seen.pid)


def follow_usage(c: ContainerRecord, pid: int = 0) -> None:
    c.gauge = stats.group_of(pid, c.id) or stats.ByEngine(c.engine.client, c.id)


def _follow_log(c: ContainerRecord, seen: ContainerState) -> None:
    c.id, c.original = seen.id, c.original or seen.host
    if c.sync is None and not c.adopted and str(c.folder) not in seen.shared:
        _sync(c, seen)
    c.log = log_follower(c)


def log_follower(c: ContainerRecord) -> LogFollower:
    position = c.records / f"log.{c.attempt}"
    return LogFollower(c.engine.client, c.id, c.folder, position, new_only=c.adopted)


def _sync(c: ContainerRecord, seen: ContainerState) -> FileSync:
    position = c.records / f"reports.{c.attempt}"
    c.sync = FileSync(c.engine.client, c.name, c.folder, seen.user, position)
    return c.sync


def examine(c: ContainerRecord) -> ContainerState | None:
    """Return the state of a container; None: it was removed. If it has exited, fetch its last
    output and files.
    """
    seen = c.engine.container(c.name)
    if seen is None or seen.state == "created":
        return seen
    if seen.running:
        if c.log is None or c.log.over.is_set():
            follow(c, seen)
        return seen
    fetch_rest(c, seen)
    for _ in range(LOOKS):  # the engine may report a removal or lack of memory later
        if seen is None or seen.code != KILLED or c.stopping or seen.oom:
            break
        sleep(REMOVAL)  # `docker rm --force` kills first
        seen = c.engine.container(c.name)
    return None if seen is not None and seen.state == "removing" else seen


def fetch_rest(c: ContainerRecord, seen: ContainerState) -> None:
    """Fetch the last output and files of an exited container."""
    if c.log is None:
        _follow_log(c, seen)
    if c.sync is not None:
        c.sync.download()
    if c.log is not None:
        c.log.over.wait(LAST_OUTPUT)


def set_share(c: ContainerRecord, limit: Cores | None, weight: float) -> None:
    update(c, cpu_limits.share_body(c.original, c.engine.capacity.cpu, limit, weight))


def restore_share(c: ContainerRecord) -> None:
    """Restore the original limits."""
    set_share(c, *cpu_limits.share(c.original, c.engine.capacity.cpu))


def set_memory(c: ContainerRecord, limit: Bytes) -> None:
    update(c, cpu_limits.memory_body(inspect(c).host, limit))


def update(c: ContainerRecord, body: dict[str, int]) -> None:
    failpoint.hit("docker.update")
    c.engine.client.post(f"/containers/{c.name}/update", body)


def kill(c: ContainerRecord, signal: str) -> None:
    """Signal a container, unless it was adopted."""
    if not c.adopted:
        failpoint.hit("docker.kill")
        c.engine.client.post(f"/containers/{c.name}/kill", signal=signal)


def remove(c: ContainerRecord) -> None:
    """Remove a container, unless it was adopted."""
    if c.adopted:
        return
    failpoint.hit("docker.remove")
    try:
        c.engine.client.delete(f"/containers/{c.name}", force=True, v=True)
    except Declined as error:
        if error.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
            raise  # otherwise it is removed, or being removed


# -- in the loop's thread --------------------------------------------------------------------------


def refresh(c: ContainerRecord) -> list[events.Event]:
    """Copy files, and follow output and usage again after a lost connection."""

    def synced(_: object) -> Iterable[events.Event]:
        c.syncing = False
        return ()

    if c.start is not None or not c.engine.up or c.inspecting:
        return []
    if c.sync is not None and not c.syncing:
        c.syncing = True
        c.engine.worker.do(c.sync.sync, synced, synced)
    if c.gauge is not None and c.gauge.over:
        c.gauge.close()
        follow_usage(c)
    if c.log is None or not c.log.over.is_set():
        return []
    if not c.log.error:
        c.log = log_follower(c)
    elif not c.log.reported:
        c.log.reported = True
        notice = f"its log cannot be read: {c.log.error}"
        return [events.ReplicaNotice(c.replica, c.attempt, notice)]
    return []
