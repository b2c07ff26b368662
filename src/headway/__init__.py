"""Headway: a resource manager for deep-learning training jobs that watches what they achieve."""

__version__ = "0.1.0"
