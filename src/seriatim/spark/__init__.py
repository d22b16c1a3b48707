"""seriatim on Spark: functions from DataFrame to DataFrame, streaming or batch.

The import of this package sets ``PYSPARK_PYTHON`` to the running Python, unless the variable is set. Otherwise Spark's
workers would take the first ``python3`` in PATH, which may lack seriatim. On a cluster, set the variable to the Python
of the executors.

The functions are imported on first use: Spark starts Python processes for small parts of a query, and each of them
imports this package.
"""

import importlib
import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from seriatim.extras import need

need("spark")

from seriatim.spark.session.versions import check_version

check_version()

if TYPE_CHECKING:
    from seriatim.spark.resequence.held import held as held
    from seriatim.spark.resequence.merge import merge as merge
    from seriatim.spark.resequence.stage import resequence as resequence
    from seriatim.spark.route.stage import route as route
    from seriatim.spark.stamp.stage import stamp as stamp

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

__all__ = ["held", "merge", "resequence", "route", "stamp"]


class _Later:
    """A function of the package. The import of the package of its name, which sets this attribute, doesn't replace it."""

    def __init__(self, module: str, name: str) -> None:
        self._module, self._name = module, name

    def __get__(self, package: object, kind: type) -> Any:
        return getattr(importlib.import_module(self._module), self._name)

    def __set__(self, package: object, module: object) -> None:
        """Keep the attribute."""


class _Package(ModuleType):
    held = _Later("seriatim.spark.resequence.held", "held")
    merge = _Later("seriatim.spark.resequence.merge", "merge")
    resequence = _Later("seriatim.spark.resequence.stage", "resequence")
    route = _Later("seriatim.spark.route.stage", "route")
    stamp = _Later("seriatim.spark.stamp.stage", "stamp")


sys.modules[__name__].__class__ = _Package
