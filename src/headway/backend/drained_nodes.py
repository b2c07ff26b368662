"""Nodes that a user has drained: no replica starts there. Stored in the run directory."""

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from headway.backend import durable
from headway.core.model.units import NodeId, Seconds

if TYPE_CHECKING:  # `headway ps` reads only the file, and must start fast
    from headway.controller.commands import Commands
    from headway.controller.controller import Controller

FILE = "drained.json"
DRAIN, UNDRAIN = "drain", "undrain"


def read(folder: Path) -> list[NodeId]:
    with suppress(OSError, ValueError, TypeError):
        return [NodeId(str(name)) for name in json.loads((folder / FILE).read_text())]
    return []


def change(
    folder: Path, controller: "Controller", node: NodeId, now: Seconds, *, drain: bool
) -> "Commands":
    """Drain or undrain a node. The change is durable when this returns."""
    others = [name for name in controller.records.drained if name != node]
    nodes = [*others, node] if drain else others
    durable.write(folder / FILE, json.dumps(nodes))
    return use(controller, nodes, now)


def use(controller: "Controller", nodes: Iterable[NodeId], now: Seconds) -> "Commands":
    """Set the drained nodes. Jobs that can move leave them, as they leave cordoned nodes of a
    cluster.
    """
    from headway.controller.events import NodeChanged  # noqa: PLC0415 - slow, see above

    before, controller.records.drained = controller.records.drained, dict.fromkeys(nodes)
    arrived = {job.id: None for job in controller.jobs.values() if job.arrived}
    controller.outbox.jobs |= arrived  # their usable nodes have changed
    commands: Commands = []
    for name in {**before, **controller.records.drained}:
        if node := controller.nodes.get(name):
            drained = name in controller.records.drained
            commands += controller.handle(NodeChanged(replace(node, cordoned=drained)), now)
    return commands
