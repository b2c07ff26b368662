"""The lock of a data directory, which has at most one server.

This module imports little: a server takes the lock before the imports that take a second, so that
a second server is refused at once, and clients can tell that a server is starting.
"""

import os
from pathlib import Path

from headway import private_files
from headway.errors import ConfigError
from headway.runtime.network_filesystem import refuse_network
from headway.runtime.run_directory import is_locked, private_runs, take_lock

LOCK = "server.lock"


def lock_data(data: Path) -> int:
    """Return the descriptor of the lock, which is released when it is closed."""
    refuse_network(data)
    private_runs(data)
    lock = private_files.opener(str(data / LOCK), os.O_RDWR | os.O_CREAT)
    if not take_lock(lock):
        os.close(lock)
        raise ConfigError(
            "a server is already active", where=str(data), hint="headway submit -- COMMAND"
        )
    return lock


def has_server_process(data: Path) -> bool:
    """Return whether a server is active or starting."""
    return is_locked(data / LOCK)
