"""Stamp: give each message a ticket on arrival, without gaps in a location; `stage.py` adds the stage to a query."""
