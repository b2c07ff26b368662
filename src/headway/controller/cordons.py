"""Cordoned nodes: request that replicas which can continue on other nodes leave them. Nodes that
were removed for good are forgotten when they have no more replicas.

The policy decides the target, as for a request of a user. The request is repeated while replicas
remain, for example because no other node had enough capacity.
"""

from math import inf

from headway.controller.records import Records
from headway.core.model.job import Phase
from headway.core.model.node import Node
from headway.core.model.snapshot import Request, Trigger
from headway.core.model.units import NodeId, Seconds


class Cordons:
    def __init__(self, records: Records, interval: Seconds) -> None:
        self._records, self._interval = records, interval
        self._at: dict[NodeId, Seconds] = {}
        """Time of the next request for each cordoned node."""
        self._removed: dict[NodeId, None] = {}
        """Nodes that no longer exist."""

    def changed(self, node: Node, now: Seconds) -> None:
        if node.up and node.cordoned:
            self._at.setdefault(node.id, now)
        else:
            self._at.pop(node.id, None)

    def exists(self, node: NodeId, *, exists: bool) -> None:
        self._removed.pop(node, None)
        if not exists:
            self._removed[node] = None

    def forget(self) -> tuple[NodeId, ...]:
        """Those that were removed and have no replica. Called before the outbox is taken."""
        if not self._removed:
            return ()
        known = self._records
        replicas = [r for job in known.jobs.values() for r in job.replicas.values()]
        used = {r.node for r in replicas} | {r.transfer.to for r in replicas if r.transfer}
        gone = tuple(node for node in self._removed if node not in used)
        for node in gone:
            del self._removed[node], known.nodes[node]
            known.outbox.nodes.pop(node, None)
        return gone

    def next(self) -> Seconds:
        return min(self._at.values(), default=inf)

    def ask(self, now: Seconds) -> None:
        for node in [n for n, at in self._at.items() if at <= now]:
            self._at[node] = now + self._interval
            for job in self._records.jobs.values():
                here = any(r.node == node and r.running for r in job.replicas.values())
                if here and job.can_checkpoint and job.phase is Phase.RUNNING:
                    wish = Request(job=job.id, wish="leave", to=node)
                    self._records.outbox.requests.append(wish)
                    self._records.outbox.triggers.append(Trigger.ASKED)
