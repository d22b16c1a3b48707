"""Columns, times, readings, and the words of outcomes."""
