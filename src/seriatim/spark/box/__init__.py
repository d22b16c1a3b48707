"""Spark's format ``seriatim``: queues of a message box as source and sink."""
