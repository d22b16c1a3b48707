"""Turns: a group is locked, judged and handed out."""
