"""The simulator: the same loop and policies over simulated nodes and time."""
