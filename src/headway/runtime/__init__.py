"""Run the loop: driver, journal, run directories, server, operator, and status for users."""
