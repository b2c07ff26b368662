"""Policies by name.

A policy that only decides shares runs on each node, after `even` has placed the jobs (`headway`:
where fair sharing would place them). A policy that migrates jobs comes before `spread`. Gangs are
placed as a whole, except that `spread`, `even` and `fair` place pod by pod. `a+b` is a chain of
exactly these. Settings follow a colon: `flowcon:paper,threshold=0.1`.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from math import inf, nan
from typing import Any

from headway.core.cycle.policy import Chain, PerNode, Policy
from headway.errors import ConfigError, UnknownName, nearest
from headway.policy.common.user_requests import UserRequests
from headway.policy.gang import dragon, kips, optimus, tiresias
from headway.policy.migration import checkpoint_probe, specon
from headway.policy.placement import even, fair_placement, fifo, flowcon2, kube_default, spread
from headway.policy.share import fair, flowcon, fsp, headway, las, srpt


@dataclass(frozen=True)
class Entry:
    make: type[Any]
    """The policy, a record of its settings."""
    level: str
    """What it decides: `shares` on a node, `placement`, `moves` between nodes, or `jobs`."""
    own: str = ""
    """One line about it, if not that of the policy."""
    paper: dict[str, Any] | None = None
    """Settings of its paper mode, if it has one."""
    part: dict[str, Any] | None = None
    """What it adds to `gang`: `gang+locality` is one policy, not a chain."""

    @property
    def about(self) -> str:
        return self.own or self.make.about


POLICIES: dict[str, Entry] = {
    "fair": Entry(fair.Fair, "shares"),
    "headway": Entry(
        headway.Headway,
        "shares",
        "shortest remaining work first; no job finishes later than under fair",
    ),
    "srpt": Entry(srpt.Srpt, "shares"),
    "las": Entry(las.Las, "shares"),
    "fsp": Entry(fsp.Fsp, "shares"),
    "spread": Entry(kube_default.KubeDefault, "placement"),
    "even": Entry(kube_default.EvenByPod, "placement"),
    "fifo": Entry(fifo.Fifo, "placement"),
    "tiresias": Entry(tiresias.Tiresias, "jobs"),
    "flowcon": Entry(flowcon.FlowCon, "shares", paper=flowcon.PAPER),
    "flowcon2": Entry(flowcon2.FlowCon2, "placement", paper=flowcon.PAPER),
    "specon": Entry(specon.SpeCon, "moves", paper=specon.PAPER),
    "interrupted": Entry(checkpoint_probe.CheckpointProbe, "moves"),
    "gang": Entry(dragon.Gang, "jobs", part={}),
    "locality": Entry(
        dragon.Gang,
        "jobs",
        "gang, on as few nodes as possible, ps with most workers",
        part={"local": True},
    ),
    "elastic": Entry(
        dragon.Gang,
        "jobs",
        "gang, and adds and removes workers while jobs run",
        part={"elastic": True},
    ),
    "dragon": Entry(dragon.Dragon, "jobs", paper=dragon.PAPER),
    "kips": Entry(kips.Kips, "jobs"),
    "optimus": Entry(optimus.Optimus, "jobs"),
}


def build(text: str) -> Policy[Any]:
    """Return the policy for a name. `@name`: as on real platforms, with user requests first, and
    with gangs that never start partially and are not overtaken forever.
    """
    if text.startswith("@"):
        return Chain(UserRequests(), _build(text[1:], whole=True), name=text)
    return _build(text, whole=False)


def _build(text: str, *, whole: bool) -> Policy[Any]:
    parts = _joined(text.split("+"))
    members = [_member(part) for part in parts]
    if whole:
        members = [_whole(m) if isinstance(m, kube_default.EvenByPod) else m for m in members]
    if len(members) > 1:
        return Chain(*members, name=text)
    level = POLICIES[parts[0].partition(":")[0]].level
    return _combined(members[0], level, text, whole=whole)


def _whole(policy: kube_default.EvenByPod) -> even.Even:
    return replace(policy.whole(), reserve=True)


def _combined(policy: Policy[Any], level: str, name: str, *, whole: bool) -> Policy[Any]:
    """Return the policies that a single name stands for."""
    if isinstance(policy, PerNode) and policy.name == "headway":
        return fair_placement.FairPlacement(policy, name=name, reserve=whole)
    if level == "shares":
        by_pod = policy.name == "fair" and not whole
        first = kube_default.EvenByPod() if by_pod else even.Even(reserve=whole)
        return Chain(first, policy, name=name)
    if level == "moves":
        return Chain(policy, spread.Spread(reserve=whole), PerNode(fair.Fair()), name=name)
    return replace(policy, name=name) if level == "jobs" else policy  # type: ignore[type-var]


def _joined(parts: list[str]) -> list[str]:
    """Merge the parts of one policy for whole jobs.

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
        settings = (f"{k}={v}" for k, v in part.items())
        before = out.pop().partition(":")[2] if out and out[-1].startswith("gang:") else ""
        out.append("gang:" + ",".join(filter(None, (before, *settings, given))))
    return out


def _member(text: str) -> Policy[Any]:
    name, _, settings = text.strip().partition(":")
    if name not in POLICIES:
        raise UnknownName("policy", name, POLICIES)
    entry = POLICIES[name]
    policy = entry.make(**_settings(name, entry, settings))
    return PerNode(policy) if entry.level == "shares" else policy


def _settings(name: str, entry: Entry, text: str) -> dict[str, Any]:
    known = {f.name: f.type for f in fields(entry.make) if f.name not in ("name", "listens")}
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
        known = ", ".join(allowed)
        raise ConfigError(f"{name}: {key} cannot be {text!r}", hint=f"there are: {known}")
    return text


_SWITCH = ("on", "true", "yes", "1", "off", "false", "no", "0")
_POSITIVE = frozenset({"interval", "floor_divisor", "quantum"})
CHOICES = {
    "release": ("1.34", "1.17"),
    "signal": ("range", "maximum"),
    "cold_start": ("unknown", "zero"),
    "objective": ("completion", "quality"),
    "rule": ("share", "pressure"),
    "balance": ("ceil", "floor"),
    "rebalance": ("converged", "migrated"),
    "unconverged_on": ("node", "cluster"),
    "floor_rule": ("divisor", "count"),
    "resources": ("cpu", "all"),
    "near_ps": ("first", "only", "off"),
}
"""Allowed words for settings."""
