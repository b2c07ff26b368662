"""Find the engines of a run, and divide them into nodes."""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headway.backend.cpu_partition import cut, fit_nodes
from headway.backend.docker.client import USUAL, Client
from headway.backend.docker.engine import Engine
from headway.core.model.node import Node
from headway.core.model.units import NodeId
from headway.errors import ConfigError
from headway.spec.node_spec import NODE_NAME, NodeSpec
from headway.spec.runnable import RunnableJob
from headway.spec.workload import Workload

DOCKER = NodeId("docker")
"""Default name of a single engine."""
WORKLOADS = "headway-workloads"
"""Image of the built-in trainings, and default image of tasks."""


@dataclass(frozen=True, slots=True)
class EngineTarget:
    """A node: an engine or a part of it."""

    url: str
    name: NodeId
    node: Node | None = None
    """Node as described in the workload; None: the whole engine."""


def engine_targets(given: Sequence[str], workload: Workload | None) -> list[EngineTarget]:
    """Return the nodes and their engines. `given`: NAME=URL or URL."""
    engines = dict(_named(word, i) for i, word in enumerate(given))
    default = os.environ.get("DOCKER_HOST") or USUAL
    if workload is None or "nodes" not in workload.model_fields_set:
        engines = engines or {DOCKER: default}
        return [EngineTarget(url, name) for name, url in engines.items()]
    written = dict(_written(workload))
    only = next(iter(engines.values()), default) if len(engines) <= 1 else ""
    found = []
    for node in workload.to_nodes():
        url = engines.get(node.id) or written.get(node.id) or only
        if not url:
            raise ConfigError(
                f"no engine is given for node {node.id!r}",
                hint=f"--engine {node.id}=URL, or `engine: URL` beside its name in the workload",
            )
        found.append(EngineTarget(url, node.id, node))
    return found


def _named(word: str, index: int) -> tuple[NodeId, str]:
    name, equals, url = word.partition("=")
    if not equals:
        return (DOCKER if not index else NodeId(f"{DOCKER}-{index}")), word
    if not name or not url or not re.match(NODE_NAME, name):
        raise ConfigError(
            f"{word!r} names no engine",
            where="--engine",
            hint="--engine NAME=URL, as in a=unix:///run/a.sock; a name has letters, digits, '-', "
            "'_' and '.'",
        )
    return NodeId(name), url


def _written(workload: Workload) -> Iterable[tuple[NodeId, str]]:
    listed = workload.nodes if isinstance(workload.nodes, tuple) else (NodeSpec(),)
    each = [spec.engine for spec in listed for _ in range(spec.count)]
    return ((node.id, url) for node, url in zip(workload.to_nodes(), each, strict=False))


def connect(found: Sequence[EngineTarget]) -> tuple[list[Engine], float]:
    """Connect to the engines. Nodes of one engine get separate CPUs. Return also the factor that
    scales their CPU down.
    """
    made = {target.name: Engine(target.name, Client(target.url)) for target in found}
    least = 1.0
    for url in dict.fromkeys(target.url for target in found):
        here = [target for target in found if target.url == url]
        whole = made[here[0].name].capacity
        asked = tuple(target.node or made[target.name].node() for target in here)
        nodes, factor = fit_nodes(asked, whole.cpu, whole.memory)
        least = min(least, factor)
        for part in cut(nodes, range(int(whole.cpu))):
            engine = made[part.node.id]
            engine.capacity, engine.cpus = part.node.capacity, part.cpus
    return list(made.values()), least


def check_images(engines: Sequence[Engine], jobs: Sequence[RunnableJob]) -> None:
    """Raise an error if an engine lacks an image."""
    images = dict.fromkeys(c.image for job in jobs for c in job.commands.values() if c.image)
    for engine in engines:
        for image in images:
            if engine.client.find(f"/images/{image}/json") is None:
                hint = f"docker pull {image}, or name another: `image:` of the task, or --image"
                if image.partition(":")[0] == WORKLOADS:
                    hint = f"docker build -f deploy/docker/workloads.Dockerfile -t {image} ."
                raise ConfigError(
                    f"the engine of {engine.name} has no image {image!r}",
                    where=engine.client.url,
                    hint=hint,
                )
