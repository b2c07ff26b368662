"""Addresses of the containers of a distributed job, which use the network of their machines."""

import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress
from urllib.parse import urlsplit

from headway.backend.docker.container_table import ContainerRecord
from headway.backend.docker.engine import Engine
from headway.backend.replica_env import LOCALHOST
from headway.controller.commands import Start
from headway.core.model.units import NodeId, ReplicaId

ANY_PORT = 9
"""Any port will do to find the interface: nothing is sent."""


def addresses(engines: Iterable[Engine]) -> dict[NodeId, str]:
    """Return the host name or address of the machine of each engine: the loopback address if all
    engines are on this machine.
    """
    hosts = {engine.name: _host(engine.client.url) for engine in engines}
    remote = next((host for host in hosts.values() if host != LOCALHOST), None)
    here = LOCALHOST if remote is None else _own_address(remote)
    return {name: here if host == LOCALHOST else host for name, host in hosts.items()}


def hosts_of(
    known: Mapping[NodeId, str], command: Start, running: Iterable[ContainerRecord]
) -> dict[ReplicaId, str]:
    """Return the host of each replica that starts now or runs already."""
    nodes = {c.replica: c.node for c in running} | {a.replica: a.node for a in command.replicas}
    return {replica: known[node] for replica, node in nodes.items() if node in known}


def _host(url: str) -> str:
    found = urlsplit(url).hostname if not url.startswith("unix:") else None
    return LOCALHOST if found in (None, "localhost", "::1", LOCALHOST) else str(found)


def _own_address(remote: str) -> str:
    """Return the address of this machine on the route to another one."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((remote, ANY_PORT))
        return str(probe.getsockname()[0])
    return LOCALHOST
