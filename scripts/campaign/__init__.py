"""The parts of `scripts/chaos`."""
