"""Instances of long-running handlers, and which message is for which."""
