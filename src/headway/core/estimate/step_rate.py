"""Step rate of a distributed job, from its workers, their distances, and its parameter servers.

Optimus' formulas for synchronous and asynchronous training with parameter servers (EuroSys 2018),
and for ring all-reduce. A worker has a rate (its cores times the speed of its node) and a distance
to the replicas that it communicates with.
"""

from collections.abc import Sequence
from math import inf

from headway.core.model.node import Node
from headway.core.model.serialization import record
from headway.core.model.units import Cores, CoreSeconds, Seconds, Share

HERE, NEAR, FAR = range(3)
"""Distance of a worker: on the node of a parameter server, in the rack of one, in another rack. In
a ring: the largest distance between two workers."""
SERVER = "ps"
CHIEF = "chief"

Worker = tuple[Cores, int]
"""Rate and distance."""


@record
class Speed:
    """Cost of one step. Compute is in core-seconds at speed 1, all other costs in seconds."""

    kind: str = "sync"
    """`sync` or `async`, with parameter servers; or `ring`."""
    compute: CoreSeconds = 1.0
    """Compute for the batch of a step, which the workers divide. An asynchronous worker computes a
    whole batch. Optimus' a M."""
    fixed: CoreSeconds = 0.0
    """Compute of each worker in each step that does not depend on its part of the batch (b)."""
    transfer: Seconds = 0.0
    """Time to send the model once: its size over the bandwidth (c)."""
    per_worker: Seconds = 0.0
    """Overhead in each step for every worker (d)."""
    per_server: Seconds = 0.0
    """Overhead in each step for every parameter server (e)."""
    latency: Seconds = 0.0
    """Latency of one round of a ring with several workers."""
    penalty: float = 1.0
    """Factor for transfers to another node."""
    rack_penalty: float = 1.0
    """Further factor for transfers to another rack."""

    @property
    def has_servers(self) -> bool:
        return self.kind != "ring"

    @property
    def waits(self) -> bool:
        """Whether all workers wait for the slowest one in each step."""
        return self.kind != "async"


def steps_per_second(speed: Speed, workers: Sequence[Worker], servers: int = 0) -> float:
    """Return the rate of the whole job; 0 without workers, or without a server that it needs.

    >>> four = [(1.0, HERE)] * 4
    >>> steps_per_second(Speed(compute=4.0, fixed=0.5, transfer=0.25), four, servers=2)
    0.5
    >>> steps_per_second(Speed(kind="async", compute=2.0), four, servers=1)
    2.0
    >>> steps_per_second(Speed(kind="ring", compute=4.0, transfer=2.0), four)
    0.25
    """
    if not _can_train(speed, workers, servers):
        return 0.0
    times = _times(speed, workers, servers)
    return 1 / max(times) if speed.waits else sum(1 / t for t in times)


def useful(speed: Speed, workers: Sequence[Worker], servers: int = 0) -> list[Share]:
    """Return the fraction of time in which each worker makes progress: excluding the time in which
    it waits for slower workers, and the extra time of transfers over a distance.
    """
    if not _can_train(speed, workers, servers):
        return [0.0] * len(workers)
    taken = _times(speed, workers, servers)
    needed = _times(speed, [(rate, HERE) for rate, _ in workers], servers)
    slowest = max(taken)
    return [n / (slowest if speed.waits else t) for n, t in zip(needed, taken, strict=True)]


def predict(
    speed: Speed, workers: int, servers: int = 1, rate: Cores = 1.0, far: int = HERE
) -> float:
    """Return the step rate with this number of equal workers."""
    return steps_per_second(speed, [(rate, far)] * workers, servers)


def distances(speed: Speed, workers: Sequence[Node], servers: Sequence[Node]) -> list[int]:
    """Return the distance of each worker."""
    if speed.has_servers:
        nodes, racks = {n.id for n in servers}, {n.rack for n in servers}
        return [HERE if w.id in nodes else NEAR if w.rack in racks else FAR for w in workers]
    spans = HERE
    if len({w.id for w in workers}) > 1:
        spans = NEAR if len({w.rack for w in workers}) == 1 else FAR
    return [spans] * len(workers)


def equal_limits(available: Sequence[tuple[Cores, float]]) -> list[Cores]:
    """Return limits under which all workers of a synchronous job have the same rate. `available`:
    the cores that each could use, and the speed of its node.

    >>> equal_limits([(2.0, 1.0), (4.0, 0.5), (8.0, 2.0)])
    [2.0, 4.0, 1.0]
    """
    rate = min((cores * speed for cores, speed in available), default=0.0)
    return [rate / speed for _, speed in available]


def _can_train(speed: Speed, workers: Sequence[Worker], servers: int) -> bool:
    if not workers or (speed.has_servers and servers < 1):
        return False
    rates = [rate for rate, _ in workers]
    return min(rates) > 0 if speed.waits else max(rates) > 0


def _times(speed: Speed, workers: Sequence[Worker], servers: int) -> list[Seconds]:
    """Return the time of a step for each worker; infinite for one without CPU."""
    count = len(workers)
    if speed.kind == "ring":
        alone = count == 1
        shared = 0.0 if alone else 2 * (count - 1) / count * speed.transfer
        flat, part = 0.0 if alone else speed.latency, count
    else:
        shared = speed.transfer * count / servers
        flat = speed.per_worker * count + speed.per_server * servers
        part = count if speed.waits else 1
    own = speed.compute / part + speed.fixed
    factors = (1.0, speed.penalty, speed.penalty * speed.rack_penalty)
    return [(own / rate if rate > 0 else inf) + shared * factors[d] + flat for rate, d in workers]
