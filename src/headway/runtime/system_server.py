"""The server of a machine, which all of its users share (`headway serve --system`)."""

import os
from pathlib import Path

from headway.runtime.run_directory import RunDirectory, data_folder

SOCKET = Path("/run/headway/headway.sock")
DATA = Path("/var/lib/headway")
VARIABLE = "HEADWAY_SYSTEM"
"""The path of its socket, for a command that is to use it in any case."""


def system_socket(data: Path | None) -> Path | None:
    """The socket of the machine's server, if a command uses it; `data`: `--data` of the command.
    None: the command uses the user's own runs. An active run or server of the user goes first.
    """
    if named := os.environ.get(VARIABLE):
        return Path(named)
    if data is not None or not SOCKET.is_socket():
        return None
    own = RunDirectory.all(data_folder())
    return None if any(run.locked for run in own) else SOCKET
