"""Estimates from reports: progress, category, size of a job, rate of its steps."""
