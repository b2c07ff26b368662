"""The data that the rest is about: units, jobs, nodes, reports, snapshots, decisions."""
