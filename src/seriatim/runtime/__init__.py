"""Processes: what runs a pipeline, and what it tells of itself."""
