"""A replica as a container: how it is named, made and described."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.backend.docker.replica import Member
from headway.spec.runnable import Command

LABEL = "headway.dev"
RUN, JOB, TASK = f"{LABEL}/run", f"{LABEL}/job", f"{LABEL}/task"
REPLICA, EPOCH, NODE = f"{LABEL}/replica", f"{LABEL}/epoch", f"{LABEL}/node"
GANG = f"{LABEL}/gang"
LOG = {"Type": "json-file", "Config": {"max-size": "64m", "max-file": "2"}}


def labels(run: str, m: Member) -> dict[str, str]:
    return {
        RUN: run,
        JOB: m.work.id,
        TASK: m.task,
        REPLICA: m.id,
        EPOCH: str(m.epoch),
        NODE: m.node,
        **({GANG: m.work.id} if m.rank[1] > 1 else {}),
    }


def name(run: str, m: Member) -> str:
    """Can be given once only: so nobody makes the same start twice."""
    return f"headway-{run}-{m.id.replace('/', '-')}-{m.epoch}"


def body(
    run: str,
    m: Member,
    command: Command,
    env: Mapping[str, str],
    *,
    shared: bool,
) -> dict[str, Any]:
    """What to ask of the engine. `shared`: our folder is there too."""
    mount = {"Type": "bind", "Source": str(m.folder), "Target": str(m.folder)}
    made: dict[str, Any] = {
        "Image": command.image,
        "Env": [f"{key}={value}" for key, value in env.items()],
        "Labels": labels(run, m),
        "HostConfig": {
            "Init": True,
            "CpuShares": 1024,
            "Memory": int(m.most),
            "MemorySwap": int(m.most),
            "Mounts": [mount] if shared else [],
            "LogConfig": LOG,
            "CpusetCpus": ",".join(map(str, m.engine.cpus or ())),
            **({"NetworkMode": "host"} if m.rank[1] > 1 else {}),
        },
    }
    if command.argv:
        made["Entrypoint"], made["Cmd"] = list(command.argv), []
    if command.where:
        made["WorkingDir"] = command.where
    if os.getuid():
        made["User"] = f"{os.getuid()}:{os.getgid()}"  # what it writes is then ours too
    return made


def open_to(user: str, folder: Path) -> None:
    """Let a container's user write into a replica's folder."""
    if os.getuid() or user in ("", "0", "root", "0:0"):
        return
    owner, _, group = user.partition(":")
    for path in (folder, folder / "checkpoint"):
        if owner.isdigit():
            os.chown(path, int(owner), int(group) if group.isdigit() else int(owner))
        else:
            path.chmod(0o777)  # only the image knows who that is
    for path in (folder / "checkpoint").rglob("*"):
        if owner.isdigit():
            os.chown(path, int(owner), int(group) if group.isdigit() else int(owner))


@dataclass(frozen=True, slots=True)
class ContainerState:
    """A container as the engine describes it."""

    id: str
    name: str
    labels: Mapping[str, str]
    state: str
    """created, running, paused, restarting, exited, dead; "gone": there is none any more."""
    pid: int
    code: int
    oom: bool
    error: str
    user: str
    image: str
    restarts: int
    host: Mapping[str, Any]
    shared: frozenset[str]
    """Folders of the engine's machine that it sees under the same name."""

    @property
    def running(self) -> bool:
        return self.state in ("running", "paused", "restarting")


def found(said: Mapping[str, Any]) -> ContainerState:
    """From what `inspect` answers."""
    state, config, host = said["State"], said["Config"], said["HostConfig"]
    mounts: Sequence[Mapping[str, Any]] = said.get("Mounts") or ()
    return ContainerState(
        id=said["Id"],
        name=said["Name"].lstrip("/"),
        labels=config.get("Labels") or {},
        state=state["Status"],
        pid=state.get("Pid") or 0,
        code=state.get("ExitCode") or 0,
        oom=bool(state.get("OOMKilled")),
        error=state.get("Error") or "",
        user=config.get("User") or "",
        image=config.get("Image") or "",
        restarts=said.get("RestartCount") or 0,
        host=host,
        shared=frozenset(m["Source"] for m in mounts if m.get("Source") == m.get("Destination")),
    )
