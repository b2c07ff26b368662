"""Data model: units, jobs, nodes, reports, snapshots, decisions."""
