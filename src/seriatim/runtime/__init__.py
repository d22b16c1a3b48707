"""Processes: pipelines and workers, and their reports."""
