"""Spark's side of a box: pipelines read batches from it and write batches into it."""

from seriatim.extras import need

need("spark")
