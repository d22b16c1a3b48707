"""Receive: any source of Spark becomes a frame with one row per message; `stage.py` begins a query with it."""
