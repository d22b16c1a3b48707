"""Deliver: one sink for all ports, one Spark job for each micro-batch; `stage.py` starts a query with this sink."""
