"""Spark's side of a box: what pipelines read from it and write to it."""
