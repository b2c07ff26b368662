"""Policies that migrate or suspend running jobs."""
