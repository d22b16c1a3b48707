"""A box's clock that is moved by its test and hardly otherwise, so that it makes no difference how long the machine takes."""

from __future__ import annotations

from typing import Any

from seriatim import MessageBox

__all__ = ["slow_down"]

#: How much slower it goes on by itself than the machine's.
_SLOWER = 1_000


def slow_down(box: MessageBox) -> None:
    """Let the clock of a box that can be moved go a thousand times slower from now on; it never stands still."""
    with box.session() as tx:
        (since,) = _row(tx.connection.execute("SELECT pg_catalog.clock_timestamp()"))
        for name, volatility in (("now", "STABLE"), ("clock_timestamp", "VOLATILE")):
            gone = f"(pg_catalog.{name}() - TIMESTAMPTZ '{since}') / {_SLOWER}"
            tx.connection.execute(
                f"CREATE OR REPLACE FUNCTION seriatim_clock.{name}() RETURNS timestamptz LANGUAGE sql {volatility}"
                f" RETURN (SELECT TIMESTAMPTZ '{since}' + {gone} + by FROM seriatim_clock.moved)"
            )


def _row(cursor: Any) -> tuple[Any, ...]:
    found: tuple[Any, ...] = cursor.fetchone()
    return found
