"""Cordoned nodes: request that replicas which can continue on other nodes leave them.

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

    def changed(self, node: Node, now: Seconds) -> None:
        if node.up and node.cordoned:
            self._at.setdefault(node.id, now)
        else:
            self._at.pop(node.id, None)

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
