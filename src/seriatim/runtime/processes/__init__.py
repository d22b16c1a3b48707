"""Processes that work on queues: a supervisor with its worker processes, and serving, with readers according to the load."""
