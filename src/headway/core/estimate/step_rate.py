"""How fast a distributed job is, by its workers, where they are, and its parameter servers.

Optimus' formulas for synchronous and asynchronous training with parameter servers (EuroSys 2018),
and the ring all-reduce. A worker is told by its pace, the cores it gets times the speed of its
node, and by how far it is from those it talks to.
"""

from collections.abc import Sequence

from headway.core.model.node import Node
from headway.core.model.serialization import record
from headway.core.model.units import Cores, CoreSeconds, Seconds, Share

HERE, NEAR, FAR = range(3)
"""How far a worker is: on the node of a parameter server, in the rack of one, in another rack. A
ring is as far as it spans."""
SERVER = "ps"
CHIEF = "chief"

Worker = tuple[Cores, int]
"""Its pace, and how far it is."""


@record
class Speed:
    """What one step costs. Compute is core-seconds at speed 1, everything else seconds."""

    kind: str = "sync"
    """`sync` and `async`, with parameter servers; `ring`."""
    compute: CoreSeconds = 1.0
    """Of a step's whole batch, divided among the workers; asynchronous workers take whole batches.
    Optimus' a M."""
    fixed: CoreSeconds = 0.0
    """Of every worker in every step, however small its part (b)."""
    transfer: Seconds = 0.0
    """The model's size over the bandwidth: what it takes to send it once (c)."""
    per_worker: Seconds = 0.0
    """Overhead in each step for every worker (d)."""
    per_server: Seconds = 0.0
    """Overhead in each step for every parameter server (e)."""
    latency: Seconds = 0.0
    """Of one trip around a ring of several."""
    penalty: float = 1.0
    """Transfers to another node take so many times as long."""
    rack_penalty: float = 1.0
    """Those to another rack so many times longer still."""

    @property
    def has_servers(self) -> bool:
        return self.kind != "ring"

    @property
    def waits(self) -> bool:
        """Do all wait for the slowest?"""
        return self.kind != "async"


def steps_per_second(speed: Speed, workers: Sequence[Worker], servers: int = 0) -> float:
    """Of the whole job. Without workers, or without a server that it needs, it stands still.

    >>> four = [(1.0, HERE)] * 4
    >>> steps_per_second(Speed(compute=4.0, fixed=0.5, transfer=0.25), four, servers=2)
    0.5
    >>> steps_per_second(Speed(kind="async", compute=2.0), four, servers=1)
    2.0
    >>> steps_per_second(Speed(kind="ring", compute=4.0, transfer=2.0), four)
    0.25
    """
    if not _able(speed, workers, servers):
        return 0.0
    times = _times(speed, workers, servers, _factors(speed, workers))
    return 1 / max(times) if speed.waits else sum(1 / t for t in times)


def useful(speed: Speed, workers: Sequence[Worker], servers: int = 0) -> list[Share]:
    """The part of its time that each worker makes progress in: not what it waits for slower ones,
    nor what a transfer takes longer because of where it is.
    """
    if not _able(speed, workers, servers):
        return [0.0] * len(workers)
    taken = _times(speed, workers, servers, _factors(speed, workers))
    needed = _times(speed, workers, servers, [1.0] * len(workers))
    slowest = max(taken)
    return [n / (slowest if speed.waits else t) for n, t in zip(needed, taken, strict=True)]


def predict(
    speed: Speed, workers: int, servers: int = 1, pace: Cores = 1.0, far: int = HERE
) -> float:
    """Steps a second with so many workers, all alike."""
    return steps_per_second(speed, [(pace, far)] * workers, servers)


def distances(speed: Speed, workers: Sequence[Node], servers: Sequence[Node]) -> list[int]:
    """How far each worker is, by the nodes that it and the servers are on."""
    if speed.has_servers:
        nodes, racks = {n.id for n in servers}, {n.rack for n in servers}
        return [HERE if w.id in nodes else NEAR if w.rack in racks else FAR for w in workers]
    spans = HERE
    if len({w.id for w in workers}) > 1:
        spans = NEAR if len({w.rack for w in workers}) == 1 else FAR
    return [spans] * len(workers)


def equal_limits(rooms: Sequence[tuple[Cores, float]]) -> list[Cores]:
    """Ceilings that give the workers of a synchronous job equal pace: for each the cores that it
    could have and the speed of its node.

    >>> equal_limits([(2.0, 1.0), (4.0, 0.5), (8.0, 2.0)])
    [2.0, 4.0, 1.0]
    """
    pace = min((cores * speed for cores, speed in rooms), default=0.0)
    return [pace / speed for _, speed in rooms]


def _able(speed: Speed, workers: Sequence[Worker], servers: int) -> bool:
    if not workers or (speed.has_servers and servers < 1):
        return False
    paces = [pace for pace, _ in workers]
    return min(paces) > 0 if speed.waits else max(paces) > 0


def _factors(speed: Speed, workers: Sequence[Worker]) -> list[float]:
    """How many times as long each worker's transfers take."""
    by_distance = (1.0, speed.penalty, speed.penalty * speed.rack_penalty)
    return [by_distance[far] for _, far in workers]


def _times(
    speed: Speed, workers: Sequence[Worker], servers: int, factors: Sequence[float]
) -> list[Seconds]:
    """What a step takes each worker. One who gets nothing takes for ever."""
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
    never = float("inf")
    return [
        (own / pace if pace > 0 else never) + shared * factor + flat
        for (pace, _), factor in zip(workers, factors, strict=True)
    ]
