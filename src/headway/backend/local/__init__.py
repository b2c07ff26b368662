"""Jobs as process trees of this machine."""
