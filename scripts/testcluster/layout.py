"""Names and locations of one cluster: directory, cgroups, bridges, addresses."""

import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

ROOT = Path(__file__).resolve().parents[2]
PAUSE = "headway.test/pause:1"


class Trouble(Exception):
    """An error with a message for the user; details are in the logs."""


def cache() -> Path:
    return Path(os.environ.get("HEADWAY_CACHE") or Path.home() / ".cache" / "headway")


def say(text: str) -> None:
    print(f"cluster: {text}", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Layout:
    name: str
    octet: int = 0
    """Second number of its addresses; only needed to start the cluster."""

    @property
    def root(self) -> Path:
        return Path(tempfile.gettempdir()) / f"headway-cluster-{self.name}"

    @property
    def kubeconfig(self) -> Path:
        return self.root / "kubeconfig"

    @property
    def group(self) -> str:
        """Parent cgroup in every hierarchy. It contains `control` and one cgroup for each node."""
        return f"headway-cluster-{self.name}"

    @property
    def number(self) -> int:
        return crc32(self.name.encode())

    def node(self, i: int) -> str:
        return f"node-{i}"

    def folder(self, i: int) -> Path:
        return self.root / self.node(i)

    def network(self, i: int) -> str:
        return f"{self.group}-{i}"

    def bridge(self, i: int) -> str:
        """Unique interface name, at most 15 characters."""
        return f"hw{self.number:08x}n{i}"

    def subnet(self, i: int) -> str:
        """First three numbers of a node's addresses."""
        return f"10.{self.octet}.{i}"

    @property
    def services(self) -> str:
        """Addresses of services; the first is that of the API server, also for pods."""
        return f"10.{self.octet}.250.0/24"

    @property
    def api(self) -> str:
        return f"10.{self.octet}.250.1"

    def address(self, i: int) -> str:
        return f"{self.subnet(i)}.1"
