"""Jobs as containers of Docker engines: each engine is a node."""
