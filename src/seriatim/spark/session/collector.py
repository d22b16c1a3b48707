"""Keep objects that a worker never frees out of Python's garbage collections.

PySpark's worker runs a full collection after every task. It looks at each object that is loaded: tens of
thousands in pandas, Arrow and this package, 40 ms of processor time for each task, however few its rows are.
"""

from __future__ import annotations

import functools
import gc


@functools.cache
def freeze_loaded(_what: str = "") -> None:
    """Leave all objects of this process out of later collections; does it once for what is loaded, in a process and its forks."""
    gc.collect()
    gc.freeze()
