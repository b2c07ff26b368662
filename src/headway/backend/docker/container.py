"""Labels and state of a container."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

LABEL = "headway.dev"
RUN, JOB, TASK = f"{LABEL}/run", f"{LABEL}/job", f"{LABEL}/task"
REPLICA, ATTEMPT, NODE = f"{LABEL}/replica", f"{LABEL}/attempt", f"{LABEL}/node"
GANG = f"{LABEL}/gang"


@dataclass(frozen=True, slots=True)
class ContainerState:
    """A container as described by the engine."""

    id: str
    name: str
    labels: Mapping[str, str]
    state: str
    """created, running, paused, restarting, exited, removing or dead."""
    pid: int
    code: int
    oom: bool
    finished: float | None
    """Time of the exit, as time of day of the engine's machine."""
    user: str
    image: str
    host: Mapping[str, Any]
    """`HostConfig`, which contains the limits."""
    shared: frozenset[str]
    """Folders of the engine's machine that are mounted under the same path."""

    @property
    def running(self) -> bool:
        return self.state in ("running", "paused", "restarting")


def to_state(inspected: Mapping[str, Any]) -> ContainerState:
    """Convert a response of `inspect`."""
    state, config, host = inspected["State"], inspected["Config"], inspected["HostConfig"]
    mounts: Sequence[Mapping[str, Any]] = inspected.get("Mounts") or ()
    return ContainerState(
        id=inspected["Id"],
        name=inspected["Name"].lstrip("/"),
        labels=config.get("Labels") or {},
        state=state["Status"],
        pid=state.get("Pid") or 0,
        code=state.get("ExitCode") or 0,
        oom=bool(state.get("OOMKilled")),
        finished=_time(state.get("FinishedAt") or ""),
        user=config.get("User") or "",
        image=config.get("Image") or "",
        host=host,
        shared=frozenset(m["Source"] for m in mounts if m.get("Source") == m.get("Destination")),
    )


def _time(stamp: str) -> float | None:
    """Convert an RFC 3339 time to time of day; year 1 means never.

    >>> _time("1970-01-01T00:01:00.250000000Z"), _time("0001-01-01T00:00:00Z")
    (60.0, None)
    """
    if not stamp or stamp.startswith("0001"):
        return None
    return datetime.fromisoformat(stamp[:19]).replace(tzinfo=UTC).timestamp()
