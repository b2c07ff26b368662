"""Policies that decide where a job starts."""
