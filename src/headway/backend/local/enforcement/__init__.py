"""CPU limits and weights of processes: control groups, or nice values and pacing."""
