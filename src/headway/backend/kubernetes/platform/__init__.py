"""Training jobs as pods: their lifecycle and status."""
