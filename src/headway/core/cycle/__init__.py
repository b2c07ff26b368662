"""One cycle of deciding: the cluster's state, a policy's plan, its projection and validation."""
