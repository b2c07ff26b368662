"""Pages and charts about runs and comparisons."""
