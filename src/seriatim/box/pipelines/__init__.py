"""Spark's side of a box: what pipelines read from it and write into it."""

from seriatim.extras import need

need("spark")
