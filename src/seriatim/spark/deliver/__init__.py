"""Deliver: one sink for all ports, one Spark job for each micro-batch; `stage.py` is its door."""
