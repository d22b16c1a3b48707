"""Calls of the user's code: in a Spark worker, or in a separate process."""
