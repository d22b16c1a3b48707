"""Handing out: the next group of a queue that is ready, locked until the transaction ends, and what of it may leave."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import psycopg
from psycopg.rows import tuple_row

from seriatim.box.definitions import BoxQueue, Definitions
from seriatim.box.received import received_of
from seriatim.box.resequence import Acted, Entries, GroupRow, Handed, Judged, Request, Turn
from seriatim.box.statements import statement
from seriatim.errors import UsageError
from seriatim.kernel.policy import UnitOfWork
from seriatim.kernel.resequence import Outcome
from seriatim.kernel.state import State
from seriatim.pipeline.message import Received

__all__ = ["Delivery", "Locked", "Turns"]

#: More than any set has.
_ALL = 2**31 - 2


class Delivery:
    """Messages of one group of a queue, in order; the group is locked until the transaction ends.

    Iterating to the end completes it, and so does `done`. Otherwise the messages are put back when the session ends,
    or before the next ones are received.

    Attributes:
        queue: the queue's name.
        group: the group's key; None in a queue that is `Unordered`.
        messages: what is handed out, in order.
    """

    def __init__(
        self,
        queue: str,
        group: str | None,
        messages: Sequence[Received],
        complete: Callable[[], None],
        put_back: Callable[[], None],
    ) -> None:
        self.queue = queue
        self.group = group
        self.messages = tuple(messages)
        self._complete = complete
        self._put_back = put_back
        self._open = True

    def __len__(self) -> int:
        return len(self.messages)

    def __iter__(self) -> Iterator[Received]:
        yield from self.messages
        self.done()

    def done(self) -> None:
        """All of it has been worked on. Again it does nothing.

        Raises:
            UsageError: it was put back.
            Unavailable: the transaction has to be repeated.
        """
        if self._open:
            self._complete()
            self._open = False

    def put_back(self) -> None:
        """None of it has been worked on: it is handed out again. Does nothing where it is done."""
        if self._open:
            self._put_back()
            self._open = False

    def __repr__(self) -> str:
        return f"<Delivery of {len(self)} from {self.queue!r}, group {self.group!r}>"


class Locked(NamedTuple):
    """Groups that were locked: their keys; microseconds; the version of the definitions."""

    keys: list[str]
    now_us: int
    version: int


class Turns:
    """What turns do in one transaction.

    Args:
        connection: in whose transaction.
        schema: the schema of the box.
        now_us: microseconds, in place of the database's clock.
    """

    def __init__(self, connection: psycopg.Connection, schema: str, now_us: int | None = None) -> None:
        self._connection = connection
        self._schema = schema
        self._now_us = now_us

    def lock(self, queue: BoxQueue, how_many: int = 1, group: str | None = None) -> Locked:
        """Lock the next groups that have something to do, or the named one.

        Raises:
            UsageError: the transaction reads by a snapshot older than the lock would be.
        """
        name = "lock_next" if group is None else "lock_named"
        parameters = {
            "queue_id": queue.queue_id, "how_many": how_many, "group_key": group, "now_us": self._now_us,
        }  # fmt: skip
        with self._connection.cursor(row_factory=tuple_row) as cursor:
            cursor.execute(statement(name, self._schema), parameters)
            keys, now, isolation, version = cursor.fetchall()[0]
        if isolation != "read committed":
            raise UsageError(
                f"messages can't be received in a transaction that is {isolation}",
                remedy="use READ COMMITTED: what it reads has to be younger than the lock of the group",
            )
        return Locked(keys, now, version)

    def judge(self, queue: BoxQueue, locked: Locked, limit: int) -> Judged:
        """Judge what locked groups have; at most `limit` messages of each are handed out, or a whole set."""
        at_most = _ALL if limit and isinstance(queue.declared.policy, UnitOfWork) else limit
        judged = self._turn(queue, locked, at_most, at_most + 1).judge()
        self._execute("decide", {"queue_id": queue.queue_id, **judged.changes})
        return judged

    def act(
        self, queue: BoxQueue, locked: Locked, action: Callable[[State], Outcome], *, empties: bool = False
    ) -> Acted:
        """Do what an operator asks of one locked group, after it has been judged; nothing is handed out.

        Args:
            queue: whose group it is.
            locked: the group.
            action: what it does to the state of the group.
            empties: whether what is queued becomes dead.

        Raises:
            ActionRefused: what the action raises; then nothing is written.
        """
        acted = self._turn(queue, locked, 0, _ALL if empties else 1).act(action, empties=empties)
        self._execute("decide", {"queue_id": queue.queue_id, **acted.judged.changes})
        return acted

    def _turn(self, queue: BoxQueue, locked: Locked, at_most: int, queued: int) -> Turn:
        """A turn of locked groups, with the first `queued` messages that are queued in each."""
        parameters = {"queue_id": queue.queue_id, "group_keys": locked.keys, "at_most": queued}
        with (
            self._connection.pipeline(),
            self._connection.cursor(row_factory=tuple_row, binary=True) as groups,
            self._connection.cursor(row_factory=tuple_row, binary=True) as entries,
            self._connection.cursor(row_factory=tuple_row, binary=True) as requests,
        ):
            groups.execute(statement("turn_groups", self._schema), parameters)
            entries.execute(statement("turn_entries", self._schema), parameters)
            requests.execute(statement("turn_requests", self._schema), parameters)
            known = [GroupRow(*row) for row in groups.fetchall()]
            (*columns, _) = entries.fetchall()[0]
            asked = [Request(*row) for row in requests.fetchall()]
        found = Entries.of(columns)
        return Turn(queue.declared.policy, locked.keys, known, found, locked.now_us, at_most, asked)

    def delivery(self, queue: BoxQueue, handed: Handed, definitions: Definitions) -> Delivery:
        """The messages of what is handed out."""
        with self._connection.cursor(row_factory=tuple_row, binary=True) as cursor:
            rows = cursor.execute(statement("handed", self._schema), {"entry_ids": handed.entry_ids}).fetchall()
        messages = [
            received_of(row, queue, definitions, sequence, ordinal, late)
            for row, sequence, ordinal, late in zip(rows, handed.sequences, handed.ordinals, handed.late, strict=True)
        ]
        named: dict[str, Any] = {
            "queue_id": queue.queue_id,
            "group_key": handed.group,
            "entry_ids": handed.entry_ids,
            "ordinals": handed.ordinals,
            "late": handed.late,
            "incarnation": handed.incarnation,
            "keep": queue.declared.keep == "everything",
        }
        return Delivery(
            queue.declared.name,
            handed.group,
            messages,
            lambda: self._execute("complete", named),
            lambda: self._execute("put_back", named),
        )

    def _execute(self, name: str, parameters: dict[str, Any]) -> None:
        self._connection.execute(statement(name, self._schema), parameters)
