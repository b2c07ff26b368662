"""`headway policies`."""

from dataclasses import fields
from typing import Annotated, Any

import typer

from headway.cli.terminal import print_json


def policies(
    name: Annotated[
        str | None, typer.Argument(help="Show the settings of this policy.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One object per policy.")] = False,
) -> None:
    """List the policies and what each decides, or the settings of one.

    Wherever a policy is named, settings may follow a colon as key=value, separated by commas.
    Policies joined by + form a chain.

        headway policies
        headway policies flowcon
        headway simulate w.yaml --policy flowcon:paper,threshold=0.1,interval=30
    """
    from headway.cli.output import show_policies, show_policy
    from headway.errors import UnknownName
    from headway.policy.registry import POLICIES

    if name is not None and name not in POLICIES:
        raise UnknownName("policy", name, POLICIES)
    found = [_describe(each) for each in POLICIES if name in (None, each)]
    if as_json:
        print_json(found)
    elif name is not None:
        show_policy(found[0])
    else:
        show_policies(found)


def _describe(name: str) -> dict[str, Any]:
    from headway.policy.registry import POLICIES
    from headway.spec.base_model import docstrings

    entry = POLICIES[name]
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
