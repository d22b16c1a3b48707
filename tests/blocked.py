"""Wait until somebody waits for a lock."""

from __future__ import annotations

import time

import psycopg

__all__ = ["wait_until_blocked"]

_PATIENCE_S = 120.0


def wait_until_blocked(dsn: str, by: psycopg.Connection | int, many: int = 1) -> int:
    """Wait until `many` processes wait for the transaction of a connection, or of a process; return the id of one that waits."""
    pid = by if isinstance(by, int) else by.info.backend_pid
    deadline = time.monotonic() + _PATIENCE_S
    with psycopg.connect(dsn, autocommit=True) as connection:
        blocked = "SELECT pid FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))"
        while len(waiting := connection.execute(blocked, [pid]).fetchall()) < many:
            assert time.monotonic() < deadline, "nobody waits"
    return int(waiting[0][0])
