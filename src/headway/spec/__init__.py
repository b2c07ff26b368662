"""The files that users write, as pydantic models, and their conversion to core types."""
