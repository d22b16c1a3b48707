"""Instances of long-running handlers, and the instance of each message."""
