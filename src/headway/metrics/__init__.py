"""Read the metrics of training jobs, on every platform."""
