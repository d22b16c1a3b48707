"""Lets Spark find the format ``seriatim``: it looks into every module whose name begins with ``pyspark_``."""

from seriatim.runtime.pipelines.box_format import DefaultSource

__all__ = ["DefaultSource"]
