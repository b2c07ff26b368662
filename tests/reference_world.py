"""The reference world in the memory of the policy `headway`, as plain JSON."""


def reference(plain):
    """The replicas in the reference world, wherever that is in the memory of the policy."""
    if isinstance(plain, dict):
        own = plain.get("reference") or {}
        plain = list(plain.values())
    else:
        own = {}
    for each in plain if isinstance(plain, list) else ():
        own = {**own, **reference(each)}
    return own


def served(plain):
    """What fair sharing would have given to each, in core-seconds."""
    return {name: r["done"] for name, r in reference(plain).items() if r.get("done")}
