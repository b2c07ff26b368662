"""Policies that move running replicas."""
