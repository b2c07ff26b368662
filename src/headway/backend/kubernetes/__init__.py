"""A cluster: jobs are custom resources, replicas are pods."""
