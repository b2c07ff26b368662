"""Fair sharing: water filling, the reference world, and deadlines derived from it."""
