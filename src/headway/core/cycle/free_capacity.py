"""Free capacity of the nodes after the placements so far.

`check`, the policies and the capacity check of a workload all use this model. It only adds and
subtracts, which is exact enough within one cycle. `ClusterState` and `project` add up all requests
of a node with `load_of` instead, because rounding errors would grow from cycle to cycle.
"""

from collections.abc import Collection, Iterable, Mapping
from math import inf
from typing import ClassVar, Self

from headway.core.model.job import JobSpec
from headway.core.model.node import Node
from headway.core.model.units import NOTHING, SLACK, NodeId, Resources, Where

NOMINAL = Resources(cpu=0.1, memory=200 * 2**20)
"""Requests that kube-scheduler assumes for a pod without requests."""


class FreeCapacity:
    ranks: ClassVar = False
    """Whether nodes are ranked, which requires their nominal load and number of replicas."""

    def __init__(self, nodes: Mapping[NodeId, Node]) -> None:
        self.nodes = nodes
        """The nodes before any placement. Never changed."""
        self.touched: dict[NodeId, Node] = {}
        """Nodes on which replicas were placed or released."""

    def copy(self) -> Self:
        other = object.__new__(type(self))
        other.__dict__ = {**self.__dict__, "touched": dict(self.touched)}
        return other

    def node(self, name: NodeId) -> Node | None:
        return self.touched.get(name) or self.nodes.get(name)

    def take(self, name: NodeId, request: Resources, count: int = 1) -> None:
        """Place `count` replicas with this request. Does not check whether they fit."""
        node = self.touched.get(name) or self.nodes.get(name)
        if node is None:
            return
        taken, nominal, replicas = node.taken, node.nominal, node.count
        if self.ranks:
            replicas += count
            nominal = Resources(
                cpu=nominal.cpu + count * (request.cpu or NOMINAL.cpu),
                memory=nominal.memory + count * (request.memory or NOMINAL.memory),
                gpu=nominal.gpu + count * request.gpu,
            )
        if request is not NOTHING:
            taken = Resources(
                cpu=taken.cpu + count * request.cpu,
                memory=taken.memory + count * request.memory,
                gpu=taken.gpu + count * request.gpu,
            )
        self.touched[name] = with_load(node, taken, nominal, replicas)

    def take_all(self, spec: JobSpec, where: Where) -> None:
        for replica, name in where:
            self.take(name, spec.task_of(replica).request)

    def give(self, name: NodeId, request: Resources, count: int = 1) -> None:
        """Release the capacity of `count` replicas with this request."""
        node = self.touched.get(name) or self.nodes.get(name)
        if node is not None:
            held = request if count == 1 else request.times(count)
            taken, nominal = node.taken - held, node.nominal - held
            self.touched[name] = with_load(node, taken, nominal, node.count - count)

    def first_fit(self, requests: Iterable[Resources]) -> int:
        """Place each request on the first node where it fits; return how many fit."""
        count, touched = 0, self.touched
        for request in requests:
            for name, before in self.nodes.items():
                node = touched.get(name, before)
                if request.fits(node.taken, node.capacity):
                    self.take(name, request)
                    count += 1
                    break
        return count


def slots(node: Node, request: Resources) -> float:
    """Return how many more replicas with this request fit on a node.

    >>> slots(Node(id=NodeId("a"), capacity=Resources(cpu=3.0)), Resources(cpu=2.0))
    1
    """
    if not node.up:
        return 0
    fit, whole, taken = inf, node.capacity, node.taken
    if request.gpu:
        fit = (whole.gpu - taken.gpu + SLACK) / request.gpu
        if fit < 1:
            return 0
    if request.cpu:
        fit = min(fit, (whole.cpu - taken.cpu + SLACK) / request.cpu)
    if request.memory:
        fit = min(fit, (whole.memory - taken.memory + SLACK) / request.memory)
    return max(0, int(fit)) if fit < inf else fit


def load_of(requests: Collection[Resources], count: int) -> tuple[Resources, Resources]:
    """Add up the requests of `count` replicas: as declared, and by the rules of kube-scheduler.

    `requests`: those of the replicas that request something.
    """
    silent = count - len(requests)
    if not requests:
        return NOTHING, Resources(cpu=silent * NOMINAL.cpu, memory=silent * NOMINAL.memory)
    cpu = memory = gpu = 0.0
    nominal_cpu, nominal_memory = silent * NOMINAL.cpu, silent * NOMINAL.memory
    for r in requests:
        cpu += r.cpu
        memory += r.memory
        gpu += r.gpu
        nominal_cpu += r.cpu or NOMINAL.cpu
        nominal_memory += r.memory or NOMINAL.memory
    taken = Resources(cpu=cpu, memory=memory, gpu=gpu)
    return taken, Resources(cpu=nominal_cpu, memory=nominal_memory, gpu=gpu)


def with_load(node: Node, taken: Resources, nominal: Resources, count: int) -> Node:
    return Node(
        id=node.id,
        capacity=node.capacity,
        speed=node.speed,
        rack=node.rack,
        up=node.up,
        cordoned=node.cordoned,
        images=node.images,
        foreign=node.foreign,
        taken=taken,
        nominal=nominal,
        count=count,
    )
