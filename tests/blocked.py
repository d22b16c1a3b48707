"""Wait until somebody waits for a lock."""

from __future__ import annotations

import time

import psycopg

__all__ = ["wait_until_blocked"]

_PATIENCE_S = 120.0


def wait_until_blocked(dsn: str, by: psycopg.Connection | int) -> int:
    """Wait until a process waits for the transaction of that connection, or process; return its pid."""
    pid = by if isinstance(by, int) else by.info.backend_pid
    deadline = time.monotonic() + _PATIENCE_S
    with psycopg.connect(dsn, autocommit=True) as connection:
        blocked = "SELECT pid FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))"
        while (waiting := connection.execute(blocked, [pid]).fetchone()) is None:
            assert time.monotonic() < deadline, "nobody waits"
    return int(waiting[0])
