"""What is asked of an engine about one replica. All of it may take time, and is called in the
engine's thread (`engine.py`); nothing here changes what the loop knows.
"""

from time import sleep
from typing import Any

from headway import failpoint
from headway.backend.docker import container, cpu_limits, recovery
from headway.backend.docker.container import ContainerState
from headway.backend.docker.file_sync import FileSync
from headway.backend.docker.replica import Member
from headway.core.model.units import Bytes, Cores, Seconds
from headway.errors import Declined

REMOVAL: Seconds = 0.2
"""Until a container that somebody removes by force is gone, once it has been killed."""


def inspect(m: Member) -> ContainerState:
    return container.found(m.engine.client.get(f"/containers/{m.container}/json"))


def seek(m: Member) -> ContainerState | None:
    """None: there is none any more."""
    try:
        return inspect(m)
    except Declined:
        return None


def launch(m: Member, made: dict[str, Any]) -> ContainerState:
    """Create, furnish, start."""
    failpoint.hit()
    try:
        m.engine.client.post("/containers/create", made, name=m.container)
    except Declined as error:
        if error.status == 400 and "bind source" in error.message and not m.engine.apart:
            m.engine.apart, made["HostConfig"]["Mounts"] = True, []
            return launch(m, made)
        if error.status != 409:  # somebody has made it already: that one counts
            raise
    seen = inspect(m)
    if str(m.folder) in seen.shared:
        container.open_to(seen.user, m.folder)
    else:
        m.mirror = mirror(m, seen)
        m.mirror.furnish()
    failpoint.hit()
    m.engine.client.post(f"/containers/{m.container}/start")
    return inspect(m)


def mirror(m: Member, seen: ContainerState) -> FileSync:
    return FileSync(m.engine.client, m.container, m.folder, seen.user, m.epoch)


def set_share(m: Member, cores: Cores) -> tuple[Cores | None, float]:
    """As is wanted by the time that it is done."""
    wanted = m.wanted or m.has
    update(m, cpu_limits.asked(m.host, cores, *wanted))
    return wanted


def set_memory(m: Member, most: Bytes) -> None:
    update(m, cpu_limits.memory(inspect(m).host, most))


def update(m: Member, asked: dict[str, int]) -> None:
    m.engine.client.post(f"/containers/{m.container}/update", asked)


def kill(m: Member, name: str) -> None:
    """Never what somebody else started."""
    if m.work.job.adopted is None:
        m.engine.client.post(f"/containers/{m.container}/kill", signal=name)


def autopsy(m: Member) -> ContainerState | None:
    """How it ended; None: somebody has removed it."""
    seen = seek(m)
    if seen is not None and m.mirror is not None:
        m.mirror.last()
    if m.log is not None:
        m.log.over.wait(1.0)  # the last that it printed
    if seen is not None and seen.code == recovery.GONE and m.kill_at is None and not seen.oom:
        sleep(REMOVAL)  # who kills a container mostly means to remove it
        seen = seek(m)
    return None if seen is not None and seen.state == "removing" else seen


def remove(m: Member) -> None:
    """Never what somebody else started."""
    if m.work.job.adopted is not None:
        return
    failpoint.hit()
    try:
        m.engine.client.delete(f"/containers/{m.container}", force=True, v=True)
    except Declined as error:
        if error.status not in (404, 409):
            raise
