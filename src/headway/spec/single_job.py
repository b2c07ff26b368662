"""A job of one command, as an entry of a workload.

This module imports little, because `headway submit -- COMMAND` must start fast.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headway.errors import ConfigError, shown

JOB_NAME = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
LONGEST_NAME = 63


def single_job(
    command: Sequence[str], name: str = "", retries: int = 0, steps: int | None = None
) -> dict[str, Any]:
    """Return the job of a command. Without a name, it is that of the script of the command. A
    command that a user types is not retried unless the user says so. `steps`: None: unknown.

    >>> single_job(["python", "-u", "src/Train_1.py", "--lr=1"])["name"]
    'train-1'
    """
    for word in command:
        if not _is_text(word):
            raise ConfigError(f"{shown(word)} in the command is not UTF-8", hint="rename the file")
    name = name or _name_of(command) or "job"
    if len(name) > LONGEST_NAME or not re.fullmatch(JOB_NAME, name):
        raise ConfigError(
            f"{shown(name)} is not a name of a job",
            hint=f"use at most {LONGEST_NAME} lower-case letters, digits, '-' and '.'",
        )
    total = {} if steps is None else {"totalSteps": steps}
    spec = {"tasks": [{"command": list(command)}], "backoffLimit": retries, **total}
    return {"name": name, "spec": spec}


def _is_text(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def _name_of(command: Sequence[str]) -> str:
    scripts = (word for word in command if not word.startswith("-") and "." in Path(word).name)
    stem = Path(next(scripts, command[0])).stem.lower()
    return re.sub("[^a-z0-9]+", "-", stem).strip("-")[:LONGEST_NAME].strip("-")
