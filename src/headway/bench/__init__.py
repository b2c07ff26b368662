"""Benchmarks, and the bars that they are judged by."""
