"""Backends that the loop observes and acts on: a controller with a platform."""
