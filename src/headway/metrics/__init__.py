"""How the progress of a training is read, on every platform."""
