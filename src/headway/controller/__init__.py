"""The job lifecycle as a state machine without IO: events in, commands out, deadlines as data."""
