"""Policies for distributed jobs, whose gangs start as a whole."""
