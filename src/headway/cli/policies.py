"""`headway policies`."""

from typing import Annotated

import typer


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
    from headway.cli.output import print_json, show_policies, show_policy
    from headway.spec.policy_settings import describe_policies

    found = describe_policies(name)
    if as_json:
        print_json(found)
    elif name is not None:
        show_policy(found[0])
    else:
        show_policies(found)
