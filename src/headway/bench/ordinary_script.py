"""A training loop as people write it, in seven styles of output: `ordinary_script.py STYLE STEPS`.

It knows nothing of Headway, and computes for a fixed CPU time, on two cores as frameworks do: half
of each step in a second process. If it has a checkpoint directory, it saves its step on SIGTERM
and continues there.
"""

import json
import os
import signal
import sys
from pathlib import Path
from time import thread_time

STEPS = {"epoch": 60, "keras": 40, "bar": 80, "json": 50, "hf": 100, "accuracy": 40, "silent": 40}
CPU = {
    "epoch": 0.30, "keras": 0.15, "bar": 0.11, "json": 0.10, "hf": 0.20, "accuracy": 0.35,
    "silent": 0.30,
}  # fmt: skip
"""Seconds of CPU time of a step."""


def line(style: str, step: int, steps: int) -> str:
    """Return what it prints after a step."""
    loss = 2 / (step + 1)
    epoch, batch = divmod(step - 1, 10)
    return {
        "epoch": f"Epoch {step}/{steps}  loss: {loss:.4f}\n",
        "keras": f"Epoch {epoch + 1}/{steps // 10}\n" * (batch == 0)
        + f"{batch + 1}/10 [====] - 0s 15ms/step - loss: {loss:.4f}\n",
        "bar": f"\rtrain: {100 * step // steps:3}%|##  | {step}/{steps} [00:01<00:09, "
        f"9.1it/s, loss={loss:.3f}]",
        "json": json.dumps({"step": step, "total_steps": steps, "loss": loss}) + "\n",
        "hf": f"{{'loss': {loss:.4f}, 'learning_rate': 1e-05, 'epoch': {step / 10:.2f}}}\n",
        "accuracy": f"accuracy: {1 - loss / 2:.4f}\n",
    }.get(style, "")


def compute(seconds: float) -> None:
    end, x = thread_time() + seconds, 1.0
    while thread_time() < end:
        for _ in range(2000):
            x = x * 1.0000001 + 1e-9


class SecondCore:
    """A process that computes half of each step. It ends when this one does."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        requests, self.requests = os.pipe()
        self.answers, answers = os.pipe()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it answers until the step is saved
            os.close(self.requests)
            while os.read(requests, 1):
                compute(seconds)
                os.write(answers, b".")
            os._exit(0)

    def step(self) -> None:
        os.write(self.requests, b".")
        compute(self.seconds)
        os.read(self.answers, 1)


def main(style: str, steps: int = 0) -> None:
    """`steps`: how many; 0: as many as this style has by default."""
    steps = steps or STEPS[style]
    saved = Path(os.environ.get("HEADWAY_CHECKPOINT_DIR", ".")) / "step"
    step = int(saved.read_text()) if saved.exists() else 0
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: stopped.append(number))
    cores = SecondCore(CPU[style] / 2)
    while step < steps:
        cores.step()
        step += 1
        sys.stdout.write(line(style, step, steps))
        sys.stdout.flush()
        if stopped:
            saved.write_text(str(step))
            sys.exit(128 + signal.SIGTERM)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
