"""Operators' functions in Python: list groups, messages, dead letters, faults and instances, and act on them."""
