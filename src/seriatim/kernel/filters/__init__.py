"""Filters: their form, and their three meanings."""
