"""Policies that decide CPU shares."""
