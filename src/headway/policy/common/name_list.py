"""Name jobs in a reason."""

from collections.abc import Sequence

NAMED = 3
"""Number of jobs that a reason names."""


def list_names(names: Sequence[str]) -> str:
    """Join names.

    >>> list_names(["vae"]), list_names(["vae", "gru"]), list_names(["a", "b", "c", "d", "e"])
    ('vae', 'vae and gru', 'a, b, c and 2 others')
    """
    if (more := len(names) - NAMED) > 0:
        names = [*names[:NAMED], f"{more} other{'s' * (more > 1)}"]
    return " and ".join([*[", ".join(names[:-1])] * (len(names) > 1), names[-1]])
