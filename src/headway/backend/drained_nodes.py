"""Nodes that a user has drained: no replica is started there. Stored in the folder of the run."""

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from headway.backend import durable
from headway.core.model.job import Mode, Phase
from headway.core.model.snapshot import Request, Trigger
from headway.core.model.units import NOTHING, NodeId, Resources

if TYPE_CHECKING:  # `headway ps` reads only the file, and must start fast
    from headway.controller.controller import Controller
    from headway.controller.records import JobRecord
    from headway.core.model.capabilities import Capabilities

FILE = "drained.json"
DRAIN, UNDRAIN = "drain", "undrain"


def read(folder: Path) -> list[NodeId]:
    with suppress(OSError, ValueError, TypeError):
        return [NodeId(str(name)) for name in json.loads((folder / FILE).read_text())]
    return []


def change(folder: Path, controller: "Controller", node: NodeId, *, drain: bool) -> None:
    """Drain a node, or end that. It is durable when this returns."""
    others = [name for name in controller.records.drained if name != node]
    nodes = [*others, node] if drain else others
    durable.write(folder / FILE, json.dumps(nodes))
    use(controller, nodes)


def use(controller: "Controller", nodes: Iterable[NodeId]) -> None:
    """Start no replicas on these nodes from now on, and on all others again."""
    controller.records.drained = dict.fromkeys(nodes)
    arrived = {job.id: None for job in controller.jobs.values() if job.arrived}
    controller.news.jobs |= arrived  # each may use other nodes now
    controller.news.triggers.append(Trigger.NODE)


def moves(controller: "Controller", can: "Capabilities", node: NodeId) -> Iterator[Request]:
    """Yield a request for each job on a node that can be moved and for which another node has room.
    The others run to their end.
    """
    for job in list(controller.jobs.values()):
        here = any(r.node == node for r in job.replicas.values())
        if here and can.migrate and _movable(job):
            to = _room(controller, job)
            if to is not None:
                yield Request(job=job.id, wish="move", to=to)


def _movable(job: "JobRecord") -> bool:
    own = job.capabilities is None or job.capabilities.migrate
    return own and job.phase is Phase.RUNNING and job.spec.checkpoint is not Mode.NONE


def _room(controller: "Controller", job: "JobRecord") -> NodeId | None:
    """The node with the fewest replicas on which the whole job fits."""
    taken: dict[NodeId, list[Resources]] = {name: [] for name in controller.nodes}
    for other in controller.jobs.values():
        for r in other.replicas.values():
            to = other.asked_to or r.node
            taken.setdefault(to, []).append(other.spec.task(r.id.task).request)
    needed = sum((job.spec.task(r.task).request for r in job.replicas), NOTHING)
    drained = controller.records.drained
    fits = [
        name
        for name, node in controller.nodes.items()
        if node.up and name not in drained and needed.fits(sum(taken[name], NOTHING), node.capacity)
    ]
    return min(fits, key=lambda name: len(taken[name]), default=None)
