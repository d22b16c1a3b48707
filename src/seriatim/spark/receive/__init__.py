"""Receive: any source of Spark becomes a frame with one row per message; `stage.py` is its door."""
