"""The loop and what keeps it alive."""
