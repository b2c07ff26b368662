"""The built-in training `ddp`, slowly until a file `hurry` is in the folder of its first replica:
on a busy machine, it does not end before the test has done what it wants to. While a file `stay` is
there, the first replica does not exit after its end.

    python slow_ddp.py STEPS EPOCH
"""

import os
import signal
import sys
from pathlib import Path

from headway import sdk
from headway.trainings.data_parallel import is_first
from headway.trainings.ddp import take_part
from headway.trainings.parameter_server.shared_model import Recipe
from headway.trainings.stop import NAP_S, Stop

PACE_S = 0.5
"""Between two steps."""


class SlowStop(Stop):
    def __init__(self, hurry):
        super().__init__()
        self.hurry = hurry

    def wait(self, seconds):
        super().wait(PACE_S if self.hurry and not self.hurry.exists() else seconds)


def main(steps, epoch):
    first = is_first(os.environ)
    stop = SlowStop(Path(os.environ["HEADWAY_DIR"], "hurry") if first else None)
    signal.signal(signal.SIGTERM, stop.request)
    run = sdk.attach(total_steps=steps if first else None)
    recipe = Recipe(steps=steps, size=1, epoch=epoch)
    code = take_part(recipe, run, stop, demand=1, save_every=10, timeout=120)
    while first and not stop.requested and Path(os.environ["HEADWAY_DIR"], "stay").exists():
        stop.wait(NAP_S)
    return code


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
