"""Faults of handlers, and leases of workers."""
