"""seriatim on Spark: functions from DataFrame to DataFrame, streaming or batch.

The import of this package sets ``PYSPARK_PYTHON`` to the running Python, unless the variable is set. Otherwise Spark's
workers would take the first ``python3`` in PATH, which may lack seriatim. On a cluster, set the variable to the Python
of the executors.
"""

import os
import sys

from seriatim.extras import need

need("spark")

from seriatim.spark.resequence.held import held
from seriatim.spark.resequence.stage import resequence
from seriatim.spark.route.stage import route
from seriatim.spark.stamp.stage import stamp

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

__all__ = ["held", "resequence", "route", "stamp"]
