"""Reproduced experiments as JSON, tables, Markdown and HTML."""
