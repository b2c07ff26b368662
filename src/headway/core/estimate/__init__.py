"""What is estimated from reports: progress, category, size of a job, rate of its steps."""
