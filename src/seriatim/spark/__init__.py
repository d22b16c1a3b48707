"""seriatim on Spark: DataFrame in, DataFrame out; streaming, or frames that end."""

from seriatim.spark.resequence import resequence

__all__ = ["resequence"]
