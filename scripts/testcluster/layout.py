"""Where everything of one cluster lies: its folder, groups, bridges, addresses."""

import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

ROOT = Path(__file__).resolve().parents[2]
PAUSE = "headway.test/pause:1"


class Trouble(Exception):
    """What a person has to know; the rest is in the logs."""


def cache() -> Path:
    return Path(os.environ.get("HEADWAY_CACHE") or Path.home() / ".cache" / "headway")


def say(text: str) -> None:
    print(f"cluster: {text}", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Layout:
    name: str
    octet: int = 0
    """The second number of its addresses, which only who starts it needs to know."""

    @property
    def root(self) -> Path:
        return Path(tempfile.gettempdir()) / f"headway-cluster-{self.name}"

    @property
    def kubeconfig(self) -> Path:
        return self.root / "kubeconfig"

    @property
    def group(self) -> str:
        """Below the top of every hierarchy: `control`, and one group for each node."""
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
        """At most 15 letters, and nobody else's."""
        return f"hw{self.number:08x}n{i}"

    def subnet(self, i: int) -> str:
        """The first three numbers of a node's addresses."""
        return f"10.{self.octet}.{i}"

    def address(self, i: int) -> str:
        return f"{self.subnet(i)}.1"
