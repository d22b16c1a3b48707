"""Whether queues that may have so many messages take more: what is published waits for room, or is refused."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from seriatim.box.definitions import BoxQueue
from seriatim.box.route import Routed
from seriatim.box.statements import statement
from seriatim.errors import QueueFull
from seriatim.kernel.policy import Standard, UnitOfWork

__all__ = ["Full", "Room", "full_for_batch"]

#: Of the room that was counted a process fills so much, for so long, before it counts again.
_SHARE, _AGE_S = 10, 1.0


@dataclass(frozen=True, slots=True)
class Full:
    """A queue without room: it would get `messages`, and takes `room`."""

    queue: BoxQueue
    messages: int
    room: int

    @property
    def most(self) -> int:
        """How many messages it may have."""
        return self.queue.declared.max_messages or 0

    @property
    def may_wait(self) -> bool:
        """Whether it can have room later, and says that publishers wait for that."""
        return self.queue.declared.when_full == "wait" and self.messages <= self.most

    def error(self) -> QueueFull:
        """What a publisher is told."""
        what = f"{self.messages:,} more don't fit: it may have {self.most:,} messages, and has room for {self.room:,}"
        remedy = "publish them again later" if self.messages <= self.most else "publish fewer at once"
        return QueueFull(what, where=f"queue {self.queue.declared.name!r}", remedy=remedy)


class Room:
    """What a process knows of the room in the queues of a box. Threads may share it.

    A queue is counted, up to the number that it may have, and not for each message: while it has much room a tenth of
    that is filled without looking again. So several processes may fill it a little beyond the number.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: By queue: how many more need no look, and until when; seconds of the process's clock.
        self._free: dict[int, tuple[int, float]] = {}

    def full(
        self, connection: psycopg.Connection, schema: str, limited: Mapping[int, BoxQueue], routed: Routed
    ) -> Full | None:
        """The first queue that has no room for all that would go there; None if there is none.

        Args:
            connection: in whose transaction it is looked.
            schema: the schema of the box.
            limited: the queues that say how many messages they may have, by their ids.
            routed: the messages with their entries.
        """
        entries = routed.entries
        going = Counter(
            queue_id
            for queue_id, problem in zip(entries.queue_ids, entries.problems, strict=True)
            if queue_id in limited and problem is None
        )
        asked = [queue_id for queue_id, count in going.items() if not self._has_free(queue_id, count)]
        if not asked:
            return None
        mosts = [limited[queue_id].declared.max_messages for queue_id in asked]
        rooms = _asked(connection, schema, "room_in", {"queue_ids": asked, "mosts": mosts})
        for queue_id, room in zip(asked, rooms, strict=True):
            count = going[queue_id]
            if count > room:
                count -= _let_in(connection, schema, limited[queue_id], routed)
            if count > room:
                return Full(limited[queue_id], count, room)
            with self._lock:
                self._free[queue_id] = ((room - count) // _SHARE, time.monotonic() + _AGE_S)
        return None

    def _has_free(self, queue_id: int, count: int) -> bool:
        with self._lock:
            free, until = self._free.get(queue_id, (0, 0.0))
            if count > free or time.monotonic() >= until:
                return False
            self._free[queue_id] = (free - count, until)
            return True


def full_for_batch(
    connection: psycopg.Connection, schema: str, limited: Mapping[int, BoxQueue], part_ids: Sequence[int]
) -> BoxQueue | None:
    """The first queue that has no room at all for a batch of a pipeline; None if there is none.

    A batch comes whole, and nobody can make it smaller: it comes in where there is any room, and so goes beyond the
    number by at most itself. If it fills a hole it comes in at once.

    Args:
        connection: in whose transaction it is looked.
        schema: the schema of the box.
        limited: the queues that say how many messages they may have, by their ids.
        part_ids: the staged parts of the batch.
    """
    named = {"part_ids": list(part_ids), "queue_ids": list(limited)}
    with connection.cursor(row_factory=tuple_row) as cursor:
        going = [queue_id for queue_id, _ in cursor.execute(statement("staged_in_queues", schema), named)]
        if not going:
            return None
        mosts = [limited[queue_id].declared.max_messages for queue_id in going]
        rooms = _asked(connection, schema, "room_in", {"queue_ids": going, "mosts": mosts})
        for queue in (limited[queue_id] for queue_id, room in zip(going, rooms, strict=True) if room <= 0):
            policy = queue.declared.policy
            if not isinstance(policy, Standard | UnitOfWork):
                return queue
            asked = {"part_ids": list(part_ids), "queue_id": queue.queue_id, "whole": isinstance(policy, UnitOfWork)}
            if not cursor.execute(statement("staged_fills", schema), asked).fetchall()[0][0]:
                return queue
    return None


def _let_in(connection: psycopg.Connection, schema: str, queue: BoxQueue, routed: Routed) -> int:
    """How many of the messages a full queue takes nevertheless."""
    entries, policy = routed.entries, queue.declared.policy
    mine = [
        row
        for row, (queue_id, problem) in enumerate(zip(entries.queue_ids, entries.problems, strict=True))
        if queue_id == queue.queue_id and problem is None
    ]
    ordered = isinstance(policy, Standard | UnitOfWork)
    parameters = {
        "queue_id": queue.queue_id,
        "whole": isinstance(policy, UnitOfWork),
        "message_ids": [routed.typed.messages[entries.places[row]].message_id for row in mine],
        # A queue of another policy knows no holes.
        "group_keys": [entries.groups[row] if ordered else None for row in mine],
        "sequences": [entries.sequences[row] for row in mine],
    }
    return sum(_asked(connection, schema, "waited_for", parameters))


def _asked(connection: psycopg.Connection, schema: str, name: str, parameters: Mapping[str, Any]) -> list[Any]:
    with connection.cursor(row_factory=tuple_row) as cursor:
        (found,) = cursor.execute(statement(name, schema), parameters).fetchall()[0]
    return list(found)
