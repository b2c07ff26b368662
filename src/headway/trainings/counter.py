"""Train without end, and count: `python -m headway.trainings.counter gru FILE`.

FILE holds the updates so far and the CPU time that they took, as two numbers of 8 bytes.
"""

import mmap
import os
import struct
import sys
from pathlib import Path
from time import process_time

from headway.trainings.__main__ import THREADS

LAYOUT = struct.Struct("<dd")


def read(path: Path) -> tuple[float, float]:
    """Return updates and seconds of CPU; zeros: it has not begun."""
    counted: tuple[float, float] = LAYOUT.unpack(path.read_bytes())
    return counted


def count(model: str, path: Path) -> None:
    for variable in THREADS:
        os.environ.setdefault(variable, "1")
    # numpy reads these variables when it is first imported, which is here.
    from headway.trainings.train import Recipe, Training  # noqa: PLC0415

    training = Training(Recipe(model=model, batches=1))
    with path.open("r+b") as file, mmap.mmap(file.fileno(), LAYOUT.size) as shared:
        while True:
            training.advance()
            LAYOUT.pack_into(shared, 0, float(training.step), process_time())


if __name__ == "__main__":
    count(sys.argv[1], Path(sys.argv[2]))
