"""One cycle of deciding: the state of the cluster, plans, their projection and validation."""
