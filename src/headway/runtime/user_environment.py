"""What a submitted job gets of the environment of its user. Needs only the standard library."""

import os
from collections.abc import Sequence

from headway.errors import ConfigError

PASSED_ON = (
    "PATH", "HOME", "LANG", "VIRTUAL_ENV", "PYTHONPATH", "LD_LIBRARY_PATH", "USER", "SHELL",
)  # fmt: skip
PREFIXES = ("CONDA_", "LC_")
"""Variables of the user's shell that a submitted job gets; also those that begin like this."""


def environment(named: Sequence[str] = (), *, own: bool = False) -> dict[str, str]:
    """Those variables, and the named ones: NAME or NAME=VALUE. `own`: only the named ones, because
    the machine of the job has its own.
    """
    passed = {
        n: v
        for n, v in os.environ.items()
        if not own and (n in PASSED_ON or n.startswith(PREFIXES))
    }
    for word in named:
        name, sign, value = word.partition("=")
        if not name or not (sign or name in os.environ):
            raise ConfigError(f"--env {word}: no such variable", hint="--env NAME=VALUE")
        passed[name] = value if sign else os.environ[name]
    return passed
