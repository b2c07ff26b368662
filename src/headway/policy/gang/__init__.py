"""Policies for distributed jobs, which start whole or not at all."""
