"""A real Kubernetes cluster of several nodes on this machine, for tests: see scripts/cluster."""
