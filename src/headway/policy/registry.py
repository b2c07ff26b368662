"""Name to policy: a dict, no magic.

A policy that decides shares only runs on every node, after `spread` has placed the jobs (for
`headway`, where fair sharing would have placed them); one
that moves jobs comes before `spread`, which then sees what the moves leave. There gangs are
placed whole; `spread` itself, and `fair`, go pod by pod. `a+b` is a chain of exactly those.
Settings follow a colon: `flowcon:paper,threshold=0.1`.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields, replace
from math import inf, nan
from typing import Any

from headway.core.cycle.policy import Chain, PerNode, Policy
from headway.errors import ConfigError, UnknownName, nearest
from headway.policy.common.user_requests import Asked
from headway.policy.gang.dragon import PAPER as DRAGON_PAPER
from headway.policy.gang.dragon import Dragon, Gang
from headway.policy.gang.kips import Kips
from headway.policy.gang.optimus import Optimus
from headway.policy.gang.tiresias import Tiresias
from headway.policy.migration.checkpoint_probe import Interrupted
from headway.policy.migration.specon import PAPER as SPECON_PAPER
from headway.policy.migration.specon import SpeCon
from headway.policy.placement.fair_placement import AsFair
from headway.policy.placement.fifo import Fifo
from headway.policy.placement.flowcon2 import FlowCon2
from headway.policy.placement.kube_default import Pods
from headway.policy.placement.spread import Spread
from headway.policy.share.fair import Fair
from headway.policy.share.flowcon import PAPER as FLOWCON_PAPER
from headway.policy.share.flowcon import FlowCon
from headway.policy.share.fsp import Fsp
from headway.policy.share.headway import Headway
from headway.policy.share.las import Las
from headway.policy.share.srpt import Srpt


@dataclass(frozen=True)
class Entry:
    make: Callable[..., Policy[Any]]
    level: str
    """`shares` on a node, `placement`, `moves` between nodes, or `jobs`."""
    about: str
    paper: dict[str, Any] | None = None
    """Settings of its paper mode, where it has one."""
    part: dict[str, Any] | None = None
    """What it adds to `gang`: `gang+locality` is one policy, and not a chain."""


POLICIES: dict[str, Entry] = {
    "fair": Entry(Fair, "shares", "no ceilings, all weigh the same: plain Docker"),
    "headway": Entry(Headway, "shares", "soonest done first, nobody later than under fair"),
    "srpt": Entry(
        Srpt,
        "shares",
        "least remaining work first, by the simulator's oracle; for real: first come first",
    ),
    "las": Entry(Las, "shares", "least attained service first"),
    "fsp": Entry(Fsp, "shares", "in the order in which fair sharing would finish them"),
    "spread": Entry(Pods, "placement", "the least requested node, pod by pod: kube-scheduler"),
    "fifo": Entry(Fifo, "placement", "first come, first served, strictly; whole gangs, packed"),
    "tiresias": Entry(
        Tiresias, "jobs", "least attained service in the cluster, by suspending (NSDI 2019)"
    ),
    "flowcon": Entry(
        FlowCon, "shares", "ceilings by growth efficiency on each node (ICPP 2019)", FLOWCON_PAPER
    ),
    "flowcon2": Entry(
        FlowCon2,
        "placement",
        "flowcon on each node, and jobs where it would leave them most (our reading of TCC 2022)",
        FLOWCON_PAPER,
    ),
    "specon": Entry(
        SpeCon, "moves", "converged jobs go where they are least in the way (2021)", SPECON_PAPER
    ),
    "interrupted": Entry(
        Interrupted, "moves", "for `headway calibrate`: each job saved and started again once"
    ),
    "gang": Entry(
        Gang, "jobs", "jobs start whole, in order, with room kept for the first in line", part={}
    ),
    "locality": Entry(
        Gang, "jobs", "gang, on one node or the fewest, ps with the most", part={"local": True}
    ),
    "elastic": Entry(
        Gang, "jobs", "gang, and workers come and go while a job runs", part={"elastic": True}
    ),
    "dragon": Entry(
        Dragon, "jobs", "gang, locality and elastic together (CLOSER 2019)", DRAGON_PAPER
    ),
    "kips": Entry(
        Kips, "jobs", "workers and their CPU given and taken by load (our reading of KIPS 2022)"
    ),
    "optimus": Entry(Optimus, "jobs", "workers to whom they save most time (EuroSys 2018)"),
}


def build(text: str) -> Policy[Any]:
    """The policy that a name means, everywhere a policy is named. `@name`: as it runs for real,
    with what people ask for before it, and gangs never started in part.
    """
    if text.startswith("@"):
        return Chain(Asked(), _build(text[1:], whole=True), name=text)
    return _build(text, whole=False)


def _build(text: str, *, whole: bool) -> Policy[Any]:
    parts = _joined(text.split("+"))
    members = [_member(part) for part in parts]
    if whole:
        members = [Spread() if isinstance(m, Pods) else m for m in members]
    if len(members) > 1:
        return Chain(*members, name=text)
    level = POLICIES[parts[0].partition(":")[0]].level
    return _combined(members[0], level, text, whole=whole)


def _combined(policy: Policy[Any], level: str, name: str, *, whole: bool) -> Policy[Any]:
    """What a bare name stands for."""
    if isinstance(policy, PerNode) and policy.name == "headway":
        return AsFair(policy, name=name)
    if level == "shares":
        by_pod = policy.name == "fair" and not whole
        return Chain(Pods() if by_pod else Spread(), policy, name=name)
    if level == "moves":
        return Chain(policy, Spread(), PerNode(Fair()), name=name)
    return replace(policy, name=name) if level == "jobs" else policy  # type: ignore[type-var]


def _joined(parts: list[str]) -> list[str]:
    """The parts of one policy for whole jobs, as one.

    >>> _joined(["gang", "locality", "elastic:restart=5", "fair"])
    ['gang:local=True,elastic=True,restart=5', 'fair']
    """
    out: list[str] = []
    for text in parts:
        name, _, given = text.strip().partition(":")
        part = POLICIES[name].part if name in POLICIES else None
        if part is None:
            out.append(text)
            continue
        settings = [*(f"{k}={v}" for k, v in part.items()), *([given] if given else [])]
        before = out.pop().partition(":")[2] if out and out[-1].startswith("gang:") else ""
        out.append("gang:" + ",".join([*([before] if before else []), *settings]))
    return out


def _member(text: str) -> Policy[Any]:
    name, _, settings = text.strip().partition(":")
    if name not in POLICIES:
        raise UnknownName("policy", name, POLICIES)
    entry = POLICIES[name]
    policy = entry.make(**_settings(name, entry, settings))
    return PerNode(policy) if entry.level == "shares" else policy


def _settings(name: str, entry: Entry, text: str) -> dict[str, Any]:
    known = {f.name: f.type for f in fields(entry.make) if f.name not in ("name", "listens")}  # type: ignore[arg-type]
    found: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if not equals and key == "paper" and entry.paper is not None:
            found.update(entry.paper)
        elif not equals:
            raise ConfigError(f"policy {name} has no mode {key!r}", hint=_meant(key, entry, known))
        elif key not in known:
            raise UnknownName(f"setting of {name}", key, known)
        else:
            found[key] = _value(name, key, value, known[key])
    return found


def _meant(word: str, entry: Entry, known: Collection[str]) -> str:
    close = nearest(word, [*known, *(["paper"] if entry.paper else [])])
    meant = f"did you mean {close if close == 'paper' else f'{close}=…'!r}? " if close else ""
    return f"{meant}write name:key=value,key=value"


def _value(name: str, key: str, text: str, kind: Any) -> Any:
    if kind in (bool, "bool"):
        return _one_of(name, key, text.lower(), _SWITCH) in _SWITCH[:4]
    if kind in (str, "str"):
        return _one_of(name, key, text, CHOICES[key])
    least = "above 0" if key in _POSITIVE else "0 or more"
    try:
        number = float(text)
    except ValueError:
        number = nan
    if not 0 <= number < inf or (key in _POSITIVE and not number):
        raise ConfigError(f"{name}: {key} must be a number, {least}, not {text!r}")
    return number


def _one_of(name: str, key: str, text: str, allowed: Sequence[str]) -> str:
    if text not in allowed:
        raise ConfigError(
            f"{name}: {key} cannot be {text!r}", hint=f"there are: {', '.join(allowed)}"
        )
    return text


_SWITCH = ("on", "true", "yes", "1", "off", "false", "no", "0")
_POSITIVE = frozenset({"interval", "floor_divisor", "quantum"})
CHOICES = {
    "signal": ("range", "maximum"),
    "cold_start": ("unknown", "zero"),
    "objective": ("completion", "quality"),
    "rule": ("share", "pressure"),
    "balance": ("ceil", "floor"),
}
"""What a setting may be that is a word."""
