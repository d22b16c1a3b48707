"""Receive: whatever Spark can read becomes a frame with one row a message; `stage.py` is its door."""
