"""A real Kubernetes cluster with several nodes on this machine, for tests: see scripts/cluster."""
