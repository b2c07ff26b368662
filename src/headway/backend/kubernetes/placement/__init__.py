"""Which nodes a policy may choose for a pod, and how much room they have."""
