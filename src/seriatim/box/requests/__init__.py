"""Requests: publish one, wait for its replies, and read them."""
