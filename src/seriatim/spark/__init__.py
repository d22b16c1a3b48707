"""seriatim on Spark: DataFrame in, DataFrame out; streaming, or frames that end.

Importing it sets ``PYSPARK_PYTHON`` to the running Python where nobody has: Spark's workers would otherwise take the
first ``python3`` in PATH, which knows nothing of seriatim. On a cluster set it to the Python of the executors.
"""

import os
import sys

from seriatim.spark.resequence.stage import resequence
from seriatim.spark.route.stage import route
from seriatim.spark.stamp.stage import stamp

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

__all__ = ["resequence", "route", "stamp"]
