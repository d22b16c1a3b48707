"""Spark sessions: how one is opened, what one needs, which failures of one pass."""
