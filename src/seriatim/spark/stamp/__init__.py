"""Stamp: a ticket for each message on arrival, without a hole in a location; `stage.py` is its door."""
