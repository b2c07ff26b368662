"""The driver that jumps from event to event, and a world to jump in. Same loop, same policies."""
