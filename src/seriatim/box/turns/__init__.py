"""Turns: lock a group, judge its messages, and hand them out."""
