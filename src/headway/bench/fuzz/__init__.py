"""Mutated input for everything that Headway reads: no traceback, no hang, no bomb."""
