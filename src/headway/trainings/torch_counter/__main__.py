"""Train an autoencoder in PyTorch without end, and count: `PYTHON torch_counter FILE`.

FILE is as in `headway.trainings.counter`. Another interpreter than Headway's may have PyTorch, so
this directory runs by its path and imports nothing of Headway. OMP_NUM_THREADS is 1 by default.
"""

import mmap
import os
import struct
import sys
from itertools import pairwise
from pathlib import Path
from time import process_time

LAYOUT = struct.Struct("<dd")
IMAGES, PIXELS, HIDDEN, CODE, BATCH = 2048, 256, 200, 12, 100
"""The sizes of the built-in training `vae`."""


def count(path: Path) -> None:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    import torch  # noqa: PLC0415 - it reads this variable when it is imported

    torch.manual_seed(0)
    images = torch.rand(IMAGES, PIXELS).round()
    sizes = (PIXELS, HIDDEN, CODE, HIDDEN, PIXELS)
    layers = [torch.nn.Linear(a, b) for a, b in pairwise(sizes)]
    model = torch.nn.Sequential(*(part for layer in layers for part in (layer, torch.nn.Tanh())))
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    updates = 0
    with path.open("r+b") as file, mmap.mmap(file.fileno(), LAYOUT.size) as shared:
        while True:
            batch = images[torch.randint(IMAGES, (BATCH,))]
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(batch), batch).backward()
            optimizer.step()
            updates += 1
            LAYOUT.pack_into(shared, 0, float(updates), process_time())


if __name__ == "__main__":
    count(Path(sys.argv[1]))
