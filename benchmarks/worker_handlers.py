"""Handlers of the worker processes that `benchmarks.workers` kills."""

from __future__ import annotations

import os
import time
from typing import Any

import psycopg

__all__ = ["first_is_slow"]


def first_is_slow(message: Any, tx: Any) -> None:
    """Tell at once, in another transaction, who has begun and when; the first who has a message waits to be killed."""
    with psycopg.connect(os.environ["BENCH_DSN"], autocommit=True) as connection:
        row = connection.execute(
            "INSERT INTO began (customer, pid) VALUES (%(customer)s, %(pid)s) RETURNING"
            " (SELECT count(*) FROM began WHERE customer = %(customer)s)",
            {"customer": message.context["customer"], "pid": os.getpid()},
        ).fetchone()
    if row is not None and row[0] == 0:
        time.sleep(600)
