"""Numbered slots for the readers of a queue, to limit their number on all machines together.

A connection holds a slot. The slot is free when the connection is gone: at once after the death of its process, after
ten seconds after the loss of its machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg

from seriatim.box.box import MessageBox
from seriatim.box.connection.connections import Closing, kept_connection, through_pooler
from seriatim.box.definitions.activations import Activated, activations_of
from seriatim.box.postgres.statements import Statements
from seriatim.box.postgres.translate import translated

#: A process with slots that doesn't look for this long is lost, or frozen: PostgreSQL ends the connection, milliseconds.
_IDLE_MS = 10_000


class Slots(Closing):
    """The slots of a process, in all queues of a box; for one thread."""

    def __init__(self, box: MessageBox) -> None:
        self._dsn, self._schema = box.dsn, box.schema
        with box.session() as session:
            self._place = session.access.place
        if box.is_pooled:
            raise through_pooler(self._place)
        self._connection: psycopg.Connection | None = None
        self._taken: dict[int, set[int]] = {}

    def look(self) -> list[Activated]:
        with self._connected() as connection:
            return activations_of(Statements(connection, self._schema))

    def fill(self, queue_id: int, most: int) -> int:
        """Take all free slots from 1 to `most`."""
        free = [slot for slot in range(1, most + 1) if slot not in self._taken.get(queue_id, ())]
        if free:
            self._taken.setdefault(queue_id, set()).update(self._asked("take_slots", queue_id, free))
        return sum(slot <= most for slot in self._taken.get(queue_id, ()))

    def leave(self, queue_id: int, down_to: int) -> None:
        """Give slots back, the highest numbers first, until the process has no more than the given number."""
        taken = sorted(self._taken.get(queue_id, ()))
        if over := taken[down_to:]:
            self._asked("leave_slots", queue_id, over)
            self._taken.get(queue_id, set()).difference_update(over)

    def close(self) -> None:
        self._taken.clear()
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection = None

    def _asked(self, name: str, queue_id: int, slots: list[int]) -> list[int]:
        with self._connected() as connection:
            rows = Statements(connection, self._schema).rows(name, of_queue=queue_id, slots=slots)
        return [slot for (slot,) in rows]

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection]:
        try:
            if self._connection is None:
                self._connection = kept_connection(self._dsn, self._place)
                with translated(self._place):
                    self._connection.execute("SELECT set_config('idle_session_timeout', %s, FALSE)", [str(_IDLE_MS)])
            with translated(self._place):
                yield self._connection
        except BaseException:
            self.close()
            raise
