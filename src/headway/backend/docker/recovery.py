"""Containers that an earlier process left."""

from collections.abc import Iterator, Mapping

from headway.backend.docker.container import ATTEMPT, NODE, REPLICA, RUN, ContainerState, to_state
from headway.backend.docker.engine import Engine
from headway.core.model.units import NodeId, ReplicaId

Left = tuple[Engine, ReplicaId, int, ContainerState]
"""Engine, replica, attempt, and the state of its container."""


def containers(engines: Mapping[NodeId, Engine], run: str) -> Iterator[Left]:
    """Those of a run, each once: several nodes may be parts of one engine."""
    seen_ids = set[str]()
    for engine in engines.values():
        filters = {"label": [f"{RUN}={run}"]}
        for each in engine.client.get("/containers/json", all=True, filters=filters):
            seen = to_state(engine.client.get(f"/containers/{each['Id']}/json"))
            if ATTEMPT in seen.labels and seen.id not in seen_ids:
                seen_ids.add(seen.id)
                host = engines.get(NodeId(seen.labels[NODE]), engine)
                yield host, ReplicaId(seen.labels[REPLICA]), int(seen.labels[ATTEMPT]), seen
