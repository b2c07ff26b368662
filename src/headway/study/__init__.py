"""Experiments on the simulator and measurements of the program: benchmarks, reports."""
