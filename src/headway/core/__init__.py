"""Model and algorithms. Pure: no clock, no randomness, no files; standard library only."""
