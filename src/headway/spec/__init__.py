"""What users write, checked: pydantic models of manifest and workload, and how they become core
types. The one place where a schema lives.
"""
