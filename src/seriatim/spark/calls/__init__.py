"""Calls of the user's code: in a worker, or in a process of their own."""
