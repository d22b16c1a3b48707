"""The parent of Spark's Python workers, which ignores SIGINT.

A terminal sends Ctrl-C to every process of its foreground group. Then the driver finishes the present batch, which
would fail without its workers. The setting ``spark.python.daemon.module`` names this module.
"""

from __future__ import annotations

import signal

from pyspark import daemon

__all__ = ["daemon"]

# PySpark's daemon gives its workers this handler after each fork.
signal.default_int_handler = signal.SIG_IGN  # type: ignore[assignment]

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    daemon.manager()
