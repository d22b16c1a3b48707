"""Processes that work on queues: a supervisor with its worker processes, and serving, with readers that come and go with the load."""
