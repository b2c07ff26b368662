"""The Docker platform: replicas are containers, and each engine is a node or several."""
