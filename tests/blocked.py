"""Wait until somebody waits for a lock."""

from __future__ import annotations

import time

import psycopg

__all__ = ["wait_until_blocked"]

_PATIENCE_S = 120.0


def wait_until_blocked(dsn: str, by: psycopg.Connection) -> None:
    """Somebody waits for the transaction of that connection."""
    deadline = time.monotonic() + _PATIENCE_S
    with psycopg.connect(dsn, autocommit=True) as connection:
        blocked = "SELECT count(*) FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))"
        while connection.execute(blocked, [by.info.backend_pid]).fetchone() == (0,):
            assert time.monotonic() < deadline, "nobody waits"
