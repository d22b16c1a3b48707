"""The parent of Spark's Python workers, which ignores SIGINT.

A terminal sends Ctrl-C to every process of its foreground group. Then the driver finishes the present batch, which
would fail without its workers. The setting ``spark.python.daemon.module`` names this module.

It imports what most workers need, once, before it makes them, and spares their collector those objects.
"""

from __future__ import annotations

import importlib
import os
import runpy
import signal

from pyspark import daemon

from seriatim.spark.session.collector import freeze_loaded
from seriatim.spark.session.lone_workers import worker_to_be

__all__ = ["daemon"]

# PySpark's daemon gives its workers this handler after each fork.
signal.default_int_handler = signal.SIG_IGN  # type: ignore[assignment]

#: pandas is what Spark itself calls a stateful operator with.
_OF_WORKERS = ("pandas", "seriatim.spark.resequence.operator", "seriatim.spark.stamp.operator")
#: What workers need besides that read a box or write into one. They have a daemon of their own, whose environment names the box.
_OF_BOXES = ("seriatim.box.pipelines.feed", "seriatim.box.pipelines.dialog_staging")

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for module in (*_OF_WORKERS, *(_OF_BOXES if "SERIATIM_DSN" in os.environ else ())):
        importlib.import_module(module)
    freeze_loaded()
    if module_of_lone := worker_to_be():
        runpy.run_module(module_of_lone, run_name="__main__", alter_sys=True)
    else:
        daemon.manager()
