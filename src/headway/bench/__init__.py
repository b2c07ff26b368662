"""Measurements of Headway itself, each with a bar."""
