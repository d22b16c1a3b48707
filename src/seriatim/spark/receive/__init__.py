"""Receive: make a frame with one row per message of any source of Spark; `stage.py` begins a query with it."""
