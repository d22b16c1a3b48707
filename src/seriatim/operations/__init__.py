"""What operators do in Python: list and act on groups, messages, dead letters, faults and instances."""
