"""`Clock`: the clock of a test's message box, moved forward.

Nothing in the kernel asks a clock; PostgreSQL is asked for the time. So in a test's database PostgreSQL's clock is one that
can be moved: see `movable_clock.sql`.
"""

from __future__ import annotations

import re
from datetime import datetime
from importlib import resources

import psycopg
from psycopg import sql

from seriatim.box.box import MessageBox
from seriatim.box.postgres.routines import routines
from seriatim.box.postgres.template import for_schema
from seriatim.errors import UsageError, shown
from seriatim.kernel.values.time import micros

__all__ = ["SEARCH_PATH", "Clock", "make_movable"]

#: The `search_path` of a database whose clock can be moved.
SEARCH_PATH = '"$user", public, seriatim_clock, pg_catalog'
_CLOCKS = re.compile(r"\b(now|clock_timestamp)\(\)")


class Clock:
    """The clock of a test's box. It goes on by itself, and `move` moves it forward.

    The box goes by it: delays, retries, holes and windows, leases, lifetimes and timers of dialogs, retention, recorded times. So does
    ``now()`` in your own SQL on connections of the box. A call that waits notices a moved clock within about a second.

    Args:
        box: a box of the fixture ``seriatim_box``.

    Raises:
        UsageError: its clock can't be moved.
    """

    def __init__(self, box: MessageBox) -> None:
        self._box = box
        with box.session() as tx:
            row = tx.connection.execute("SELECT to_regclass('seriatim_clock.moved')").fetchone()
        if row is None or row[0] is None:
            raise UsageError("the clock of this box can't be moved", remedy="use a box of the fixture seriatim_box")

    def move(self, by: float | str) -> None:
        """Move the clock forward.

        Args:
            by: seconds, or ``"1h"``.

        Raises:
            UsageError: it isn't a time, or less than 0: time never goes back.
        """
        if (by_us := micros(by)) < 0:
            raise UsageError(f"the clock can't be moved by {shown(by)}", remedy="0 or more: time never goes back")
        with self._box.session() as tx:
            tx.connection.execute(
                "UPDATE seriatim_clock.moved SET by = by + make_interval(secs => %s)", [by_us / 1_000_000]
            )

    def now(self) -> datetime:
        """The time by this clock."""
        with self._box.session() as tx:
            row = tx.connection.execute("SELECT seriatim_clock.clock_timestamp()").fetchone()
        return row[0]  # type: ignore[index]  # there is always a row


def make_movable(dsn: str, schema: str) -> None:
    """Have the box in a schema go by a clock that can be moved.

    Args:
        dsn: the database, of its owner.
        schema: the schema of the box.
    """
    words = resources.files("seriatim.testing").joinpath("movable_clock.sql").read_text(encoding="utf-8")
    bound = (routine.text for routine in routines() if routine.is_parsed and _CLOCKS.search(routine.text))
    anew = for_schema(_CLOCKS.sub(r"seriatim_clock.\1()", "\n".join(bound)), schema)
    with psycopg.connect(dsn) as connection:
        connection.execute(sql.SQL(words).format(name=sql.Literal(schema)).as_bytes(connection))
        connection.execute(anew)
