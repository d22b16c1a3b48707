"""Filters: from their text to the kernel's expression."""
