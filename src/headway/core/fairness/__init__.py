"""Fair sharing: water filling, the reference schedule, deadlines derived from it."""
