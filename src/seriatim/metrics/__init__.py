"""Metrics of boxes and processes in Prometheus' format, and whether a process is alive and ready. `catalogue.py` lists all metrics."""

from seriatim.extras import need

need("metrics")
