"""Built-in training jobs, for machines without a training framework: in plain numpy, except `ddp`
and `mirrored`.

    python -m headway.trainings vae --steps 100

Importing this package is cheap: it does not import numpy.
"""

MODELS = {"vae": "VAE", "gru": "GRU", "cnn": "CNN", "lstm": "LSTM", "birnn": "BiRNN"}
"""The class of each model, in the module of its name."""

DISTRIBUTED = {
    "ps-sync": ("ps", "worker"),
    "ps-async": ("ps", "worker"),
    "ddp": ("worker",),
    "mirrored": ("worker",),
}
"""The tasks of each distributed training: with a parameter server, or data-parallel in PyTorch or
TensorFlow."""

UPDATES_PER_SECOND = {"vae": 350.0, "gru": 250.0, "cnn": 300.0, "lstm": 280.0, "birnn": 290.0}
"""Nominal speed, which converts core-seconds to updates: updates per second of one core of the
reference machine, median of three runs."""

CHUNKS = 12
"""Chunks in a step of a distributed training."""
CHUNK_COST, SAMPLE_COST = 0.23e-3, 0.036e-3
"""Core-seconds of the reference machine for a chunk, and for each sample in it."""
