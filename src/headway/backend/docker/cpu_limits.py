"""Shares in the engine's words: what to ask for, and what a container has.

The engine knows a ceiling in two ways that exclude each other: a number of CPUs (`--cpus`) and a
quota (`--cpu-quota`). A container keeps the way in which it was created; who has none gets the
first. To take a ceiling away is not possible: zero means "as it is". So no ceiling is all CPUs.
"""

from collections.abc import Mapping
from typing import Any

from headway.core.model.units import Bytes, Cores

NANO = 1_000_000_000
PERIOD = 100_000
"""Microseconds, where a container has no period of its own."""
LEAST_QUOTA = 1000
LEAST_CPUS: Cores = 0.01
NORMAL = 1024
"""Shares of who was given none."""


def asked(
    host: Mapping[str, Any], cores: Cores, limit: Cores | None, weight: float
) -> dict[str, int]:
    """What to ask of the engine. `host`: the container's `HostConfig`; `cores`: all there are.

    >>> asked({"CpuQuota": 50000}, 2, None, 1.0)
    {'CpuShares': 1024, 'CpuPeriod': 100000, 'CpuQuota': 200000}
    >>> asked({}, 2, 0.25, 3.0)
    {'CpuShares': 3072, 'NanoCpus': 250000000}
    """
    most = cores if limit is None else min(limit, cores)
    shares = {"CpuShares": min(262144, max(2, round(NORMAL * weight)))}
    if _by_quota(host):
        period = host.get("CpuPeriod") or PERIOD
        return {
            **shares,
            "CpuPeriod": period,
            "CpuQuota": max(LEAST_QUOTA, round(most * period)),
        }
    return {**shares, "NanoCpus": round(max(LEAST_CPUS, most) * NANO)}


def share(host: Mapping[str, Any], cores: Cores) -> tuple[Cores | None, float]:
    """Ceiling and weight, as the engine has them."""
    if _by_quota(host):
        quota = host.get("CpuQuota") or 0
        limit = quota / (host.get("CpuPeriod") or PERIOD) if quota > 0 else None
    else:
        nano = host.get("NanoCpus") or 0
        limit = nano / NANO if nano else None
    if limit is not None and limit >= cores - 1e-6:
        limit = None
    return limit, (host.get("CpuShares") or NORMAL) / NORMAL


def as_before(host: Mapping[str, Any], cores: Cores) -> dict[str, int]:
    """What to ask for so that a container is again as it was found."""
    limit, weight = share(host, cores)
    return asked(host, cores, limit, weight)


def memory(host: Mapping[str, Any], most: Bytes) -> dict[str, int]:
    """The most it may hold, always with its swap: the engine refuses a ceiling above the swap that
    it knows, and given both it writes them in the order that the kernel takes.

    >>> memory({"Memory": 100, "MemorySwap": 150}, 400)
    {'Memory': 400, 'MemorySwap': 450}
    """
    now, swap = host.get("Memory") or 0, host.get("MemorySwap") or 0
    more = swap - now if now and swap > now else 0
    return {"Memory": int(most), "MemorySwap": -1 if swap < 0 else int(most) + more}


def _by_quota(host: Mapping[str, Any]) -> bool:
    return bool(host.get("CpuQuota") or host.get("CpuPeriod"))
