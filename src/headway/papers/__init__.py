"""The papers' experiments, run again and judged against what was published."""
