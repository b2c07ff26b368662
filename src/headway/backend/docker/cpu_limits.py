"""Convert limit and weight to fields of the engine's API, and back.

The engine has two forms of a CPU limit that exclude each other: a number of CPUs (`--cpus`) and a
quota (`--cpu-quota`). A container keeps the form in which it was created. A container without a
limit gets the first form. A limit cannot be removed, because 0 means "unchanged": it is set to all
CPUs.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from headway.backend.cfs import NORMAL, PERIOD, cpu_quota, cpu_shares
from headway.core.model.units import Bytes, Cores

NANO = 1_000_000_000
LEAST_CPUS: Cores = 0.01


def share_body(
    host: Mapping[str, Any], cores: Cores, limit: Cores | None, weight: float
) -> dict[str, int]:
    """Return an update of limit and weight. `host`: `HostConfig` of the container. `cores`: of the
    engine.

    >>> share_body({"CpuQuota": 50000}, 2, None, 1.0)
    {'CpuShares': 1024, 'CpuPeriod': 100000, 'CpuQuota': 200000}
    >>> share_body({}, 2, 0.25, 3.0)
    {'CpuShares': 3072, 'NanoCpus': 250000000}
    """
    most = cores if limit is None else min(limit, cores)
    shares = {"CpuShares": cpu_shares(weight)}
    if _by_quota(host):
        period = host.get("CpuPeriod") or PERIOD
        return {**shares, "CpuPeriod": period, "CpuQuota": cpu_quota(most, period)}
    return {**shares, "NanoCpus": round(max(LEAST_CPUS, most) * NANO)}


def create_body(
    cpus: Sequence[int] | None, cores: Cores, limit: Cores | None, memory: Bytes
) -> dict[str, int | str]:
    """Return the limits of a new container.

    >>> create_body((0, 1), 4, None, 2**30)
    {'CpuShares': 1024, 'CpusetCpus': '0,1', 'Memory': 1073741824, 'MemorySwap': 1073741824}
    """
    cpu = {"CpuShares": NORMAL} if limit is None else share_body({}, cores, limit, 1.0)
    where = ",".join(map(str, cpus or ()))
    return {**cpu, "CpusetCpus": where, "Memory": int(memory), "MemorySwap": int(memory)}


def share(host: Mapping[str, Any], cores: Cores) -> tuple[Cores | None, float]:
    """Return limit and weight of a container."""
    if _by_quota(host):
        quota = host.get("CpuQuota") or 0
        limit = quota / (host.get("CpuPeriod") or PERIOD) if quota > 0 else None
    else:
        nano = host.get("NanoCpus") or 0
        limit = nano / NANO if nano else None
    if limit is not None and limit >= cores - 1e-6:
        limit = None
    return limit, (host.get("CpuShares") or NORMAL) / NORMAL


def memory_body(host: Mapping[str, Any], limit: Bytes) -> dict[str, int]:
    """Return an update of the memory limit, always with the swap limit: the engine refuses a limit
    above the present swap limit. It writes both in the order that the kernel accepts.

    >>> memory_body({"Memory": 100, "MemorySwap": 150}, 400)
    {'Memory': 400, 'MemorySwap': 450}
    """
    now, swap = host.get("Memory") or 0, host.get("MemorySwap") or 0
    more = swap - now if now and swap > now else 0
    return {"Memory": int(limit), "MemorySwap": -1 if swap < 0 else int(limit) + more}


def _by_quota(host: Mapping[str, Any]) -> bool:
    return bool(host.get("CpuQuota") or host.get("CpuPeriod"))
