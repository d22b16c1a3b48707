"""Spark sessions: opening a session, its requirements, and its transient failures."""
