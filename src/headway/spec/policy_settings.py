"""The policies and their settings, described as plain data."""

from dataclasses import fields
from typing import Any

from headway.errors import UnknownName
from headway.policy.registry import POLICIES, Entry
from headway.spec.docstrings import docstrings


def describe_policies(name: str | None = None) -> list[dict[str, Any]]:
    """Describe all policies, or the one of this name."""
    if name is not None and name not in POLICIES:
        raise UnknownName("policy", name, POLICIES)
    return [_describe(k, entry) for k, entry in POLICIES.items() if name in (None, k)]


def _describe(name: str, entry: Entry) -> dict[str, Any]:
    policy: Any = entry.make()
    known = [f.name for f in fields(policy) if f.name not in ("name", "listens")]
    meanings: dict[str, str] = {}
    for cls in reversed(type(policy).__mro__[:-1]):
        meanings |= docstrings(cls)
    return {
        "name": name,
        "level": entry.level,
        "about": entry.about,
        "modes": ["paper"] if entry.paper else [],
        "settings": {k: getattr(policy, k) for k in known},
        "meaning": {k: v for k, v in meanings.items() if k in known},
    }
