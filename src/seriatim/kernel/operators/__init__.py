"""Operators, handlers and time act on groups."""
