"""Built-in training jobs in plain numpy, for machines without a training framework.

    python -m headway.trainings vae --steps 100

Importing this package is cheap: it does not import numpy.
"""

MODELS = {"vae": "VAE", "gru": "GRU", "cnn": "CNN", "lstm": "LSTM", "birnn": "BiRNN"}
"""The class of each model, in the module of its name."""

UPDATES_PER_SECOND = {"vae": 350.0, "gru": 250.0, "cnn": 300.0, "lstm": 280.0, "birnn": 290.0}
"""Nominal speed, which converts core-seconds to updates: updates per second of one core of the
reference machine, median of three runs."""
