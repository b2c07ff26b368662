"""Headway: a resource manager for deep-learning training jobs that watches what they achieve."""

from headway.sdk import attach

__all__ = ["attach"]
__version__ = "0.2.0"
