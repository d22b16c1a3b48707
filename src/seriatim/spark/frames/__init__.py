"""Columns of frames, and their types."""
