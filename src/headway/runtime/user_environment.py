"""Environment of a submitted job. This module imports little, because commands must start fast."""

import os
from collections.abc import Sequence

from headway.errors import ConfigError

PASSED_ON = (
    "PATH", "HOME", "LANG", "VIRTUAL_ENV", "PYTHONPATH", "LD_LIBRARY_PATH", "USER", "SHELL",
)  # fmt: skip
PREFIXES = ("CONDA_", "LC_")
"""Prefixes of further variables of the user's shell that a submitted job gets."""


def environment(named: Sequence[str] = (), *, own: bool = False) -> dict[str, str]:
    """Return the default variables and the named ones (NAME or NAME=VALUE). `own`: only the named
    ones, because the machine of the job has its own environment.
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
