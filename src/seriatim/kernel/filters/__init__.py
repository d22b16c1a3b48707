"""Filters: what they are, and their three meanings."""
